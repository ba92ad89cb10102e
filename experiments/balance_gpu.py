#!/usr/bin/env python3
"""Throughput of a DDP job whose ranks have different shares of one GPU: uniform, balanced, and the best static split.

    PYTHONPATH=python TRACESMITH_HOME=build python3 experiments/balance_gpu.py --json FILE [--shares 100,50,25]
                                                                               [--models gpt2-tiny,resnet,bert] [--ablations gpt2-tiny]

Ranks are processes under MPS; a share is the percentage of the GPU's processors that a rank may use. NCCL takes each rank for
a machine of its own and uses sockets. Data are synthetic and are those of a sample's number, so all modes train on the same.
All modes of a model run in the same processes, in turn; a mode's time is from step --warmup to the last, and the median of its
rounds. Every result is a line of FILE. --cpu tries it without a GPU: tiny models, gloo, ranks that sleep.
"""
import argparse
import contextlib
import copy
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOTALS = {"gpt2-tiny": 320, "resnet": 384, "bert": 512}  # samples of all ranks in a step
EPOCH = 100_000  # samples


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--shares", default="100,50,25")
    p.add_argument("--models", default="gpt2-tiny,resnet,bert")
    p.add_argument("--ablations", default="", help="models that also run in bf16, with accumulation, and with gradients sent as bf16")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--price", type=float, default=4.0, help="of the GPU for an hour")
    p.add_argument("--seconds", type=float, default=500, help="no model is begun after this time")
    p.add_argument("--json", required=True)
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--meeting", help=argparse.SUPPRESS)
    return p.parse_args()


class Numbers:
    """A dataset of the numbers of its samples."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return i


class Case:
    """One model, trained in one way, in any mode."""

    def __init__(self, args, kind, ablation):
        import torch

        sys.path.insert(0, os.path.join(HERE, "..", "scripts", "gpu", "jobs"))
        import models

        self.torch, self.args, self.kind, self.ablation = torch, args, kind, ablation
        self.device = torch.device("cpu" if args.cpu else "cuda:0")
        self.total = 24 if args.cpu else TOTALS[kind]
        torch.manual_seed(1)
        self.model, sample, _, _ = models.build(torch, kind, not args.cpu)
        self.model.to(self.device)
        samples = [sample(i) for i in range(64)]
        if isinstance(samples[0], tuple):
            self.x = torch.stack([s[0] for s in samples]).to(self.device)
            self.y = torch.tensor([s[1] for s in samples], device=self.device)
        else:
            self.x = torch.stack(samples).to(self.device)
            self.y = self.x.roll(-1, 1)
        shares = [float(s) for s in args.shares.split(",")]
        self.sleep = 0.002 * max(shares) / shares[args.rank] if args.cpu else 0.0

    def loss(self, run, x, y):
        torch = self.torch
        if self.sleep:
            time.sleep(self.sleep * len(x))
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.ablation == "bf16"):
            out = run(x)
        return torch.nn.functional.cross_entropy(out.float().flatten(0, -2), y.flatten())

    def train(self, split, steps=None, warmup=None):
        """One run. `split`: fixed batches; None: balanced."""
        torch, args = self.torch, self.args
        steps, warmup = steps or args.steps, warmup or args.warmup
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader

        from tracesmith import balance

        busy = []

        class Sampler(balance.BatchSampler):
            def report(self, step, busy_s, wall_s):
                busy.append(busy_s)
                super().report(step, busy_s, wall_s)

        how = {"policy": "dynamic"} if split is None else {"policy": "proportional", "speeds": [float(n) for n in split]}
        if self.ablation == "accumulation":
            how.update(accumulate=True, micro_batch=1 if args.cpu else 16)
        model = copy.deepcopy(self.model)
        sampler = Sampler(Numbers(self.total * steps), self.total, **how)
        run = DistributedDataParallel(model, broadcast_buffers=False)
        half = torch.float16 if args.cpu else torch.bfloat16  # gloo does not know the second
        run = balance.weighted(run, sampler, exchange_as=half if self.ablation == "compression" else None)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses, ends = [], []
        for numbers in DataLoader(Numbers(self.total * steps), batch_sampler=sampler):
            numbers = numbers.to(self.device) % 64
            optimizer.zero_grad()
            sum_of_parts = 0
            for part, x, y in sampler.parts(run, self.x[numbers], self.y[numbers]):
                loss = self.loss(run, x, y) * part
                loss.backward()
                sum_of_parts = sum_of_parts + loss.detach()
            optimizer.step()
            losses.append(sum_of_parts * sampler.now.weight)
            if self.device.type == "cuda":
                torch.cuda.current_stream().synchronize()
            ends.append(time.perf_counter())
        losses = torch.stack(losses)
        dist.all_reduce(losses)
        work = [None] * dist.get_world_size()
        dist.all_gather_object(work, statistics.median(busy[warmup:]))
        out = [None]
        if args.rank == 0:
            state = sampler.state()
            took = [b - a for a, b in zip(ends, ends[1:])]
            out = [{"step_s": (ends[-1] - ends[warmup - 1]) / (steps - warmup),
                    "steps_ms": [round(1000 * t, 2) for t in took], "loss": losses[-1].item(), "losses": losses.tolist(),
                    "batches": [r.batch for r in state.plan.ranks], "plans": state.plan.version, "busy_s": work,
                    "outcomes": state.to_dict().get("outcomes")}]
        dist.broadcast_object_list(out, src=0)
        del run, optimizer, model, sampler
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # runs with other batches need blocks of other sizes
        return out[0]


def near(split):
    """Splits with a few samples more on one rank and less on another."""
    by = max(1, sum(split) // 40)
    pairs = [(a, b) for a in range(len(split)) for b in range(len(split)) if a != b]
    moved = [[n + by * (r == a) - by * (r == b) for r, n in enumerate(split)] for a, b in pairs]
    return [m for m in moved if min(m) > 0]


def figures(args, total, runs):
    """What a mode's rounds come to."""
    step = statistics.median(r["step_s"] for r in runs)
    work = runs[-1]["busy_s"]
    return {"samples_per_s": total / step, "step_ms": 1000 * step, "rounds_ms": [round(1000 * r["step_s"], 1) for r in runs],
            "epoch_s": EPOCH / total * step, "cost_per_epoch": EPOCH / total * step / 3600 * args.price,
            "load_variation": statistics.pstdev(work) / statistics.mean(work), "work_ms": [1000 * w for w in work],
            "batches": [r["batches"] for r in runs], "plans": [r["plans"] for r in runs], "loss": runs[-1]["loss"]}


def measure(args, case):
    """All modes of a case. With an ablation, no static splits."""
    from tracesmith import balance

    shares = [float(s) for s in args.shares.split(",")]
    equal = balance.batches(case.total, [1.0] * len(shares))
    runs = {"uniform": [case.train(equal)], "balanced": [case.train(None)]}
    static, best = {}, []
    if not case.ablation:
        found = runs["balanced"][0]["batches"]
        for split in [balance.batches(case.total, shares), found] + near(found):
            if tuple(split) not in static:
                static[tuple(split)] = case.train(split, args.steps * 3 // 10, args.steps // 10)
        best = sorted(static, key=lambda s: static[s]["step_s"])[:2]
        runs.update(("static %s" % list(split), [static[split]]) for split in best)
    for _ in range(args.rounds - 1):
        runs["uniform"].append(case.train(equal))
        runs["balanced"].append(case.train(None))
        for split in best:
            runs["static %s" % list(split)].append(case.train(list(split)))
    modes = {name: figures(args, case.total, of) for name, of in runs.items()}
    uniform, balanced = modes["uniform"]["samples_per_s"], modes["balanced"]["samples_per_s"]
    statics = [m["samples_per_s"] for name, m in modes.items() if name.startswith("static")]
    away = [abs(a - b) / abs(a) for a, b in zip(runs["uniform"][0]["losses"], runs["balanced"][0]["losses"])]
    again = [abs(a - b) / abs(a) for a, b in zip(runs["uniform"][0]["losses"], runs["uniform"][-1]["losses"])]
    return {"model": case.kind, "ablation": case.ablation, "shares": shares, "total": case.total, "steps": args.steps, "warmup": args.warmup,
            "modes": modes, "of_uniform": balanced / uniform, "of_best_static": balanced / max(statics) if statics else None,
            "static_first_round_ms": {str(list(s)): round(1000 * r["step_s"], 1) for s, r in static.items()},
            "loss_away": max(away), "loss_away_uniform_again": max(again) if args.rounds > 1 else None,
            "first_balanced": {k: runs["balanced"][0][k] for k in ("steps_ms", "outcomes")},
            "first_uniform": {"steps_ms": runs["uniform"][0]["steps_ms"]}}


def rank(args):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if not args.cpu:
        torch.cuda.set_device(0)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    ranks = len(args.shares.split(","))
    dist.init_process_group("gloo" if args.cpu else "nccl", init_method="file://" + args.meeting, rank=args.rank, world_size=ranks)
    begin = time.monotonic()
    cases = [(kind, "") for kind in args.models.split(",") if kind]
    cases += [(kind, a) for kind in args.ablations.split(",") if kind for a in ("bf16", "accumulation", "compression")]
    for kind, ablation in cases:
        late = [time.monotonic() - begin > args.seconds]
        dist.broadcast_object_list(late, src=0)
        if late[0]:
            break
        case = Case(args, kind, ablation)
        result = measure(args, case)
        if args.rank == 0:
            if not args.cpu:
                result["gpu"], result["torch"] = torch.cuda.get_device_name(), str(torch.__version__)
            with open(args.json, "a") as file:
                print(json.dumps(result), file=file)
            print("%s %s, shares %s: %.2f of uniform, %s of the best static split; loss %.1e away (uniform again %s); %s, %.0f s" % (
                kind, ablation or "as it is", args.shares, result["of_uniform"],
                "%.2f" % result["of_best_static"] if result["of_best_static"] else "not measured", result["loss_away"],
                result["loss_away_uniform_again"], {n: m["rounds_ms"] for n, m in result["modes"].items()}, time.monotonic() - begin), flush=True)
    dist.barrier()
    dist.destroy_process_group()


@contextlib.contextmanager
def mps(folder):
    """NVIDIA's MPS, so that ranks use the GPU at the same time and can have shares of it."""
    own = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=folder, CUDA_MPS_LOG_DIRECTORY=folder)
    if not shutil.which("nvidia-cuda-mps-control"):
        sys.exit("balance_gpu: nvidia-cuda-mps-control is missing: install NVIDIA's driver, or use --cpu")
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=own, check=True)
    try:
        yield own
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", env=own)


def main():
    args = arguments()
    if args.rank is not None:
        return rank(args)
    shares = args.shares.split(",")
    with tempfile.TemporaryDirectory() as folder, (contextlib.nullcontext(dict(os.environ)) if args.cpu else mps(folder)) as own:
        own.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", NCCL_SOCKET_NTHREADS="4",
                   NCCL_NSOCKS_PERTHREAD="4", TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING="false")
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--meeting", os.path.join(folder, "meeting")]
        ranks = [subprocess.Popen(command + ["--rank", str(r)],
                                  env=dict(own, NCCL_HOSTID="host%d" % r, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=share))
                 for r, share in enumerate(shares)]
        try:
            failed = any([r.wait() for r in ranks])
        finally:
            for r in ranks:
                r.kill()
    if failed:
        sys.exit("balance_gpu: a rank failed")


if __name__ == "__main__":
    main()
