"""A rank of a real DDP job over gloo on the CPU: balanced.py MODE STEPS [HISTORY]. RANK, WORLD_SIZE and MEETING are set.

MODE: uniform, with torch's own sampler and DDP; balanced, with those of tracesmith.balance. A sample takes a rank
SECONDS[rank] of the wall clock, so ranks that share cores do not slow each other down. Printed is a line of JSON: what
this rank trained on in each step, the mean loss of all ranks, and the sum of the parameters at the end.

With SPEEDS, a file of JSON with the seconds of each rank, nothing takes time: the sampler is told what the file says, and
it may change. With LOG, the version of the plan and the batch of each step are appended to LOG.RANK. With STOP, the job
ends when that file is there.
"""
import json
import logging
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from tracesmith import balance

SECONDS = (0.002, 0.002, 0.006)
TOTAL, SEED = 24, 5


class Samples(Dataset):
    """The last step of an epoch is not whole."""

    def __len__(self):
        return 4 * TOTAL + 12

    def __getitem__(self, i):
        return i, torch.sin(torch.arange(8, dtype=torch.double) + i)


class Model(torch.nn.Module):
    def __init__(self, seconds):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds * len(x))
        return self.net(x)


class Told(balance.BatchSampler):
    """Measures what the file SPEEDS says."""

    def report(self, step, busy_s, wall_s):
        with open(os.environ["SPEEDS"]) as speeds:
            super().report(step, json.load(speeds)[self.rank] * step.batch, 10)


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=ranks)
    data = Samples()
    told = os.environ.get("SPEEDS")
    model = DistributedDataParallel(Model(0 if told else SECONDS[rank]))
    log = open("{}.{}".format(os.environ["LOG"], rank), "a") if "LOG" in os.environ else None
    stop = os.environ.get("STOP", "")
    if mode == "balanced":
        workers = int(os.environ.get("WORKERS", "0"))
        history = sys.argv[3] if len(sys.argv) > 3 else None
        sampler = (Told if told else balance.BatchSampler)(data, TOTAL, seed=SEED, ahead=2 * workers, history=history)
        loader = DataLoader(data, batch_sampler=sampler, num_workers=workers, persistent_workers=workers > 0)
        model = balance.weighted(model, sampler)
    else:
        sampler = DistributedSampler(data, ranks, rank, seed=SEED)
        loader = DataLoader(data, batch_size=TOTAL // ranks, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    trained, losses = [], []
    epoch, leave = 0, int(os.environ.get("LEAVE", "0"))  # so many steps before the end
    while len(trained) < steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for i, (indices, x) in enumerate(loader):
            optimizer.zero_grad()
            loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
            loss.backward()
            optimizer.step()
            ends = float(os.path.exists(stop))
            both = torch.stack([loss.detach() * len(x), torch.tensor(float(len(x)), dtype=torch.double), torch.tensor(ends, dtype=torch.double)])
            dist.all_reduce(both)
            losses.append((both[0] / both[1]).item())
            trained.append({"samples": indices.tolist(), "version": sampler.now.version if mode == "balanced" else 0})
            if log is not None:
                log.write("{} {}\n".format(sampler.now.version, len(x)))
                log.flush()
                time.sleep(0.02)
            if both[2] > 0:
                steps = len(trained)
            if len(trained) == steps or (leave and i + 1 == len(loader) - leave):
                break
    out = {"trained": trained, "losses": losses, "parameters": sum(p.sum().item() for p in model.parameters())}
    if mode == "balanced" and rank == 0 and sampler.coordinator is not None:
        out["state"] = sampler.state().to_dict()
    print(json.dumps(out))
    dist.barrier()


if __name__ == "__main__":
    main()
