#!/usr/bin/env python3
"""Throughput of a DDP job whose ranks have different shares of a CPU: uniform, balanced, and the best static split.

    PYTHONPATH=python TRACESMITH_HOME=build python3 experiments/balance_cpu.py [--shares 1,0.5,0.25] [--json FILE]

Each rank trains the same model over gloo with one thread. A rank with a share of 0.5 sleeps, between layers, for as long
as it computed. Modes take turns, round after round; a mode's figure is the median of its rounds, and a round's the median
of its steps after the first --warmup, which the balancer has to find its plan.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--shares", default="1,0.5,0.25")
    p.add_argument("--total", type=int, default=84, help="samples of all ranks in a step")
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--json", help="a file for the figures")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    p.add_argument("--meeting", help=argparse.SUPPRESS)
    p.add_argument("--split", help=argparse.SUPPRESS)
    return p.parse_args()


def model_of(torch, width, share):
    """Layers, and between them the sleep that makes of a whole CPU a share of one."""
    last = [time.thread_time()]

    def pause():
        used = time.thread_time() - last[0]
        time.sleep(used * (1 / share - 1))
        last[0] = time.thread_time()

    class Share(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            pause()
            return x.view_as(x)

        @staticmethod
        def backward(_, gradient):
            pause()
            return gradient

    class Between(torch.nn.Module):
        def forward(self, x):
            return Share.apply(x)

    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(width, width), torch.nn.Tanh(), Between()]
    return torch.nn.Sequential(*layers)


def train(args):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    from tracesmith import balance

    shares = [float(s) for s in args.shares.split(",")]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + args.meeting, rank=args.rank, world_size=len(shares))
    data = TensorDataset(torch.randn(args.total * args.steps, args.width))
    static = [float(n) for n in args.split.split(",")] if args.split else []
    how = {"policy": "proportional", "speeds": static} if static else {"policy": "dynamic"}
    sampler = balance.BatchSampler(data, args.total, **how)
    model = DistributedDataParallel(model_of(torch, args.width, shares[args.rank]))
    model = balance.weighted(model, sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    times, losses, begin = [], [], time.perf_counter()
    for (x,) in DataLoader(data, batch_sampler=sampler):
        optimizer.zero_grad()
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        losses.append(loss.item() * sampler.now.weight)
    losses = torch.tensor(losses)
    dist.all_reduce(losses)
    if args.rank == 0:
        state = sampler.state()
        print(json.dumps({"step_s": statistics.median(times[args.warmup:]), "loss": losses[-1].item(),
                          "batches": [r.batch for r in state.plan.ranks], "plans": state.plan.version - 1}))
    dist.barrier()


def run(args, split):
    with tempfile.TemporaryDirectory() as folder:
        own = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        command = [sys.executable, __file__, "--shares", args.shares, "--total", str(args.total), "--steps", str(args.steps),
                   "--warmup", str(args.warmup), "--width", str(args.width), "--meeting", os.path.join(folder, "meeting")]
        command += ["--split", ",".join(map(str, split))] if split else []
        ranks = [subprocess.Popen(command + ["--rank", str(r)], stdout=subprocess.PIPE, env=own)
                 for r in range(len(args.shares.split(",")))]
        try:
            out = [rank.communicate(timeout=600)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        if any(rank.returncode for rank in ranks):
            sys.exit("balance_cpu: a rank failed")
        return json.loads(out[0])


def near(split):
    """Splits with a few samples more on one rank and less on another."""
    by = max(2, sum(split) // 40)
    return [moved for a in range(len(split)) for b in range(len(split)) if a != b
            for moved in [[n + by * (r == a) - by * (r == b) for r, n in enumerate(split)]] if min(moved) > 0]


def main():
    args = arguments()
    if args.rank is not None:
        return train(args)
    from tracesmith import balance

    shares = [float(s) for s in args.shares.split(",")]
    by_share = balance.batches(args.total, shares)
    found = run(args, None)["batches"]  # a static split that knows what the balancer finds, and those near it
    modes = {"uniform": [1] * len(shares), "balanced": None}
    modes.update(("static %s" % split, split) for split in [by_share, found] + near(found))
    rounds = {name: [] for name in modes}
    for r in range(args.rounds):
        for name, split in modes.items():
            rounds[name].append(run(args, split))
            print("round %d, %s: %.1f ms" % (r, name, 1000 * rounds[name][-1]["step_s"]), file=sys.stderr)
    speed = {n: args.total / statistics.median(x["step_s"] for x in of) for n, of in rounds.items()}
    static = max((n for n in modes if n.startswith("static")), key=speed.get)
    print("%-26s %12s %12s %16s   batches, loss after %d steps" % ("", "samples/s", "of uniform", "of best static", args.steps))
    for name in ("uniform", "balanced", static):
        last = rounds[name][-1]
        print("%-26s %12.0f %12.2f %16.2f   %s, %.6f" % (name, speed[name], speed[name] / speed["uniform"],
                                                       speed[name] / speed[static], last["batches"], last["loss"]))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"arguments": vars(args), "rounds": rounds, "samples_per_s": speed}, file, indent=1)


if __name__ == "__main__":
    main()
