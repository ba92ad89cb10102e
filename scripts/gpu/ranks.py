"""N NCCL ranks on one GPU, each its own "host", as a job for scripts/gpu-verify: ranks.py N [stop]

Runs 20 all-reduces of 1 MiB, 3 all-gathers, 2 broadcasts, and a send and a receive between ranks 0 and 1. With "stop",
rank 1 then stops itself before one more all-reduce, so the others wait for it.
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


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
