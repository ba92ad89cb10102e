#!/usr/bin/env python3
"""A real DDP job over gloo, on the CPU of this machine: gloo_ddp.py FOLDER RANKS STEPS FAULT [unmarked]

Every rank trains STEPS steps without the fault, then STEPS steps with it. It records the latter with torch's profiler
and writes FOLDER/rank<N>.json. Printed is what really happened: how many operations each rank called in the recorded
steps, and the median step without and with the fault.

FAULT: none; late:R, rank R waits for its data for EXTRA_S in each step; slow:R, it computes for EXTRA_S longer.
unmarked: it does not mark its steps.
Work takes a fixed time of the wall clock, so that ranks that share cores do not slow each other down.
"""
import contextlib
import os
import statistics
import subprocess
import sys
import time

WORK_S, EXTRA_S = 0.040, 0.250


def train(folder, ranks, steps, fault, marked):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    kind, _, victim = fault.partition(":")
    now = {"fault": "none", "calls": 0}

    class Samples(Dataset):
        def __len__(self):
            return 2 * steps

        def __getitem__(self, i):
            if now["fault"] == "late":
                time.sleep(EXTRA_S)
            return torch.full((32,), float(i))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(4)])
            self.noise = torch.eye(128)

        def forward(self, x):
            end = time.perf_counter() + WORK_S + (EXTRA_S if now["fault"] == "slow" else 0)
            while time.perf_counter() < end:
                torch.mm(self.noise, self.noise)
            return self.layers(x)

    def reduce(state, bucket):
        now["calls"] += 1
        return allreduce_hook(state, bucket)

    dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"), rank=rank, world_size=ranks)
    dist._DEFAULT_FIRST_BUCKET_BYTES = 4096  # else all of this small model is one bucket
    model = DistributedDataParallel(Model(), bucket_cap_mb=0.005)
    model.register_comm_hook(None, reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    batches = iter(DataLoader(Samples(), batch_size=1))

    def run():
        times = []
        for i in range(steps):
            begin = time.perf_counter()
            with torch.profiler.record_function(f"ProfilerStep#{i}") if marked else contextlib.nullcontext():
                x = next(batches)
                optimizer.zero_grad()
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
                dist.all_reduce(loss.detach().clone())
                now["calls"] += 1
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    clean = run()
    dist.barrier()
    if victim and int(victim) == rank:
        now["fault"] = kind
    now["calls"] = 0
    with torch.autograd.profiler.profile() as profiler:
        faulty = run()
        dist.barrier()  # a thread of gloo's notes the end of an operation after it has told the others
    profiler.export_chrome_trace(os.path.join(folder, f"rank{rank}.json"))
    if rank == 0:
        print(f"calls {now['calls']} clean_ms {1000 * clean:.3f} faulty_ms {1000 * faulty:.3f}")
    dist.barrier()


def main():
    folder, ranks, steps, fault = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if "RANK" in os.environ:
        return train(folder, ranks, steps, fault, "unmarked" not in sys.argv)
    own = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    running = [subprocess.Popen([sys.executable] + sys.argv, env=dict(own, RANK=str(r))) for r in range(ranks)]
    failed = False
    while running:  # without one of them the others would wait for ever
        for p in list(running):
            if p.poll() is not None:
                failed = failed or p.returncode != 0
                running.remove(p)
            elif failed:
                p.kill()
        time.sleep(0.05)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
