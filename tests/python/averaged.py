"""A rank of a real job over gloo on the CPU that averages parameters: averaged.py LOCAL_STEPS STEPS [late]. RANK, WORLD_SIZE
and MEETING are set.

With 0 local steps it is DistributedDataParallel. With `late`, the last rank does not go on with the second step of a
period before the other ranks are about to average at its end. Printed is a line of JSON: the mean loss of all ranks in
each step, and behind each step the samples, the plan, and a digest of the parameters.
"""
import hashlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from tracesmith import balance

from balanced import SECONDS, SEED, TOTAL, Model, Samples


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def wait_for(paths):
    deadline = time.monotonic() + 60
    while not all(map(os.path.exists, paths)):
        assert time.monotonic() < deadline, "no {}: the others waited for this rank".format(paths)
        time.sleep(0.001)


def main():
    local_steps, steps, late = int(sys.argv[1]), int(sys.argv[2]), "late" in sys.argv
    rank, ranks, meeting = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MEETING"]
    torch.set_num_threads(1)
    torch.manual_seed(1 + (rank if local_steps else 0))  # LocalSGD begins with the parameters of rank 0, as DDP does
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=ranks)
    data = Samples()
    model = Model(0 if late else SECONDS[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    sampler = balance.BatchSampler(data, TOTAL, seed=SEED, local_steps=max(local_steps, 1))
    if local_steps:
        local = balance.LocalSGD(model, optimizer, sampler)
        step = local.step
    else:
        model = balance.weighted(DistributedDataParallel(model), sampler)
        step = optimizer.step
    out = []
    epoch = 0
    while len(out) < steps:
        sampler.set_epoch(epoch)
        epoch += 1
        for indices, x in DataLoader(data, batch_sampler=sampler):
            at = len(out)
            if late and at % local_steps == 1 and rank == ranks - 1:
                wait_for(["{}-{}-{}".format(meeting, other, at + local_steps - 2) for other in range(ranks - 1)])
            if late and at % local_steps == local_steps - 1:
                open("{}-{}-{}".format(meeting, rank, at), "w").close()
            optimizer.zero_grad()
            loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
            loss.backward()
            step()
            out.append({"samples": indices.tolist(), "version": sampler.now.version, "loss": loss.item() * len(x),
                        "digest": digest(model)})
            if len(out) == steps:
                break
    if local_steps:
        local.average()
        local.average()  # nothing is left to average
    print(json.dumps({"steps": out, "digest": digest(model)}))
    dist.barrier()


if __name__ == "__main__":
    main()
