"""N NCCL ranks on one GPU, with rank 1 slow in one way, as a job for scripts/gpu-verify-analysis: slow_rank.py N HOW

HOW: none, sleep (its data loader sleeps), stop (it is stopped for a while from time to time), share (run this under MPS: rank 1 gets a fifth of the
GPU), hang (it is stopped forever at step 100; the file named by STOPPED records the time).
"""
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

STEPS = 40


def work(rank, ranks, how):
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29534",
                      RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    if how == "share":
        os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "4" if rank == 1 else "20"
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda:0"))
    a = torch.randn(2048, 2048, device="cuda")
    gradient = torch.ones(1 << 20, device="cuda")
    for step in range(1000 if how == "hang" else STEPS):
        torch.cuda.nvtx.range_push(f"step {step}")
        torch.cuda.nvtx.range_push("data_loading")
        if how == "sleep" and rank == 1:
            time.sleep(0.02)
        torch.cuda.nvtx.range_pop()
        if how == "stop" and rank == 1 and step % 2 == 0:
            pid = os.getpid()
            subprocess.Popen(["sh", "-c", f"sleep 0.05; kill -CONT {pid}"])
            os.kill(pid, signal.SIGSTOP)
        if how == "hang" and rank == 1 and step == 100:
            open(os.environ["STOPPED"], "w").close()
            os.kill(os.getpid(), signal.SIGSTOP)
        for _ in range(20):
            a = torch.tanh(a @ a) * 0.01
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    print(f"rank {rank} of {ranks} is done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(int(sys.argv[1]), sys.argv[2]), nprocs=int(sys.argv[1]))
