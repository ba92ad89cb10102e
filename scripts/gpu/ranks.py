"""N NCCL ranks on one GPU, each its own "host", as a job for scripts/gpu-verify: ranks.py N [stop|overhead]

Runs 20 all-reduces of 1 MiB, 3 all-gathers, 2 broadcasts, and a send and a receive between ranks 0 and 1. With "stop",
rank 1 then stops itself before one more all-reduce, so the others wait for it. "overhead" prints what recording costs a
stream of 1 MiB all-reduces; recording is switched on and off in turn on all ranks.
"""
import glob
import mmap
import os
import signal
import statistics
import struct
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


RECORDING_OFFSET = 120  # of RingHeader::recording, see src/model/ring/layout.hpp


def overhead(rank, data, pairs=24, operations=400):
    rings = [mmap.mmap(os.open(r, os.O_RDWR), 4096) for r in glob.glob(os.environ["TRACESMITH_DIR"] + "/*.ring")] if rank == 0 else []

    def block(on):
        for ring in rings:
            ring[RECORDING_OFFSET:RECORDING_OFFSET + 4] = struct.pack("I", on)
        time.sleep(0.15)  # the probe checks every 100 ms
        dist.barrier()
        for _ in range(20):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(operations):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    cost, base = [], []
    for pair in range(pairs):
        took = {on: block(on) for on in (pair % 2 == 0, pair % 2 == 1)}
        cost.append(100 * (took[True] / took[False] - 1))
        base.append(1e6 * took[False] / operations)
    cost.sort()
    if rank == 0:
        print(f"1 MiB all-reduces, {os.environ['TRACESMITH_MODE']}: {statistics.median(base):.1f} us each, cost {statistics.median(cost):+.2f} % "
              f"[{cost[pairs // 4]:+.2f}, {cost[3 * pairs // 4]:+.2f}]", flush=True)


def work(rank, ranks, what):
    stop = what == "stop"
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29533",
                      RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda:0"))
    data = torch.full((1 << 18,), float(rank + 1), device="cuda")
    for _ in range(20):
        data.fill_(rank + 1)
        dist.all_reduce(data)
    torch.cuda.synchronize()
    if what == "overhead":
        overhead(rank, data)
        data.fill_(rank + 1)
        dist.all_reduce(data)
    right = data[0].item() == ranks * (ranks + 1) / 2
    parts = [torch.empty(1024, device="cuda") for _ in range(ranks)]
    for _ in range(3):
        dist.all_gather(parts, torch.ones(1024, device="cuda"))
    for _ in range(2):
        dist.broadcast(data, 0)
    if rank == 0:
        dist.send(data[:4096], 1)
    if rank == 1:
        dist.recv(data[:4096], 0)
    torch.cuda.synchronize()
    print(f"rank {rank} of {ranks}: sums right: {right}", flush=True)
    if stop:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(data)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(int(sys.argv[1]), (sys.argv + [""])[2]), nprocs=int(sys.argv[1]))
