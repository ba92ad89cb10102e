#!/usr/bin/env python3
"""What local SGD gains where ranks stall now and then: three ranks over gloo on the CPU.

    PYTHONPATH=python TRACESMITH_HOME=build python3 experiments/local_sgd.py

A step takes each rank 20 ms, and one step in ten, at random and for each rank by itself, 100 ms more. Both are sleeps, so
that ranks which share cores do not slow each other down. Modes take turns in rounds; printed are the medians, and the loss
over all samples after each round's steps.
"""
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

RANKS, TOTAL, STEPS, ROUNDS = 3, 48, 160, 3
MODES = ("ddp", "1", "2", "4", "8", "16")


def rank_main(mode):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    from tracesmith import balance

    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=RANKS)
    torch.manual_seed(3)
    x = torch.randn(TOTAL * 20, 16)
    y = torch.sin(x[:, :1]) * x[:, 1:2]
    data = TensorDataset(x, y)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    # Fixed batches: what is compared is the waiting.
    sampler = balance.BatchSampler(data, TOTAL, local_steps=1 if mode == "ddp" else int(mode), dry_run=True)
    trained = model
    if mode == "ddp":
        trained = balance.weighted(DistributedDataParallel(model), sampler)
        step = optimizer.step
    else:
        local = balance.LocalSGD(model, optimizer, sampler)
        step = local.step
    stalls = random.Random(rank)
    dist.barrier()
    begin, done = time.perf_counter(), 0
    while done < STEPS:
        sampler.set_epoch(done)
        for a, b in DataLoader(data, batch_sampler=sampler):
            time.sleep(0.02 + (0.1 if stalls.random() < 0.1 else 0))
            optimizer.zero_grad()
            (trained(a) - b).pow(2).mean().backward()
            step()
            done += 1
    if mode != "ddp":
        local.average()
    dist.barrier()
    if rank == 0:
        print((time.perf_counter() - begin) / done, (model(x) - y).pow(2).mean().item())


def run(mode):
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, mode], stdout=subprocess.PIPE, universal_newlines=True,
                                  env=dict(os.environ, RANK=str(r), MEETING=os.path.join(folder, "meeting"),
                                           GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
                 for r in range(RANKS)]
        out = [rank.communicate()[0] for rank in ranks]
    assert not any(rank.returncode for rank in ranks)
    return tuple(map(float, out[0].split()))


def main():
    rounds = [{mode: run(mode) for mode in MODES} for _ in range(ROUNDS)]
    slowest = statistics.median(r["ddp"][0] for r in rounds)
    print("| mode | step | of DDP's throughput | step in the rounds | loss |\n|---|---|---|---|---|")
    for mode in MODES:
        times = [r[mode][0] for r in rounds]
        print("| {} | {:.1f} ms | {:.2f} | {} | {:.6f} |".format(
            "DDP" if mode == "ddp" else "local_steps={}".format(mode), 1e3 * statistics.median(times),
            slowest / statistics.median(times), ", ".join("{:.1f}".format(1e3 * t) for t in times), rounds[0][mode][1]))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] in MODES and "RANK" in os.environ:
        rank_main(sys.argv[1])
    else:
        print(__doc__)
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
