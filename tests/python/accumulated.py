"""A rank of a real DDP job over gloo on the CPU: accumulated.py MODE. RANK, WORLD_SIZE and MEETING are set.

MODE: whole, batches of 6 and 18 samples in one piece; parts, the same in micro-batches of 3; half, the same as whole, with gradients exchanged as
float16. Printed is a line of JSON: the sizes of what was trained at once, the losses, and the sum of the parameters.
"""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from tracesmith import balance

TOTAL, STEPS = 24, 5


def main():
    mode = sys.argv[1]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=ranks)
    data = [torch.sin(torch.arange(8, dtype=torch.double) + i) for i in range(TOTAL * STEPS)]
    micro = {"accumulate": True, "micro_batch": 3} if mode == "parts" else {}
    sampler = balance.BatchSampler(data, TOTAL, policy="proportional", speeds=[1.0, 3.0], **micro)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double())
    model = balance.weighted(model, sampler, exchange_as=torch.float16 if mode == "half" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sizes, losses = [], []
    for x in DataLoader(data, batch_sampler=sampler):
        optimizer.zero_grad()
        whole = torch.zeros((), dtype=torch.double)
        for part, some in sampler.parts(model, x):
            loss = (model(some) - some.mean(1, keepdim=True)).pow(2).mean() * part
            loss.backward()
            whole += loss.detach()
            sizes.append(len(some))
        optimizer.step()
        whole *= sampler.now.weight
        dist.all_reduce(whole)
        losses.append(whole.item())
    # A thread of gloo's may still have `whole`. If it frees it while Python ends, the program ends with SIGABRT.
    dist.barrier()
    print(json.dumps({"sizes": sizes, "losses": losses, "parameters": sum(p.sum().item() for p in model.parameters())}))


main()
