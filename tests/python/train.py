"""Real training with torch on the CPU, for the tests of the hooks: train.py KIND [STEPS]. Prints its losses, exactly.

As one of several ranks (RANK, WORLD_SIZE and MEETING are set) it is DDP over gloo; LATE is the rank whose data is late.
"""
import os
import sys
import time
import weakref

import torch
from torch.utils.data import DataLoader, Dataset

KIND, STEPS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
RANK, LATE = int(os.environ.get("RANK", 0)), int(os.environ.get("LATE", -1))


class Samples(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if RANK == LATE:
            time.sleep(0.1)
        return torch.full((16,), i / 10.0)


def work(seconds=0.02):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.mm(torch.eye(32), torch.eye(32))


def net():
    return torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])


def forked(rank):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(torch.ones(1, 16)).mean().backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    losses = []
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(x, step=True):
        work()
        loss = model(x).pow(2).mean()
        loss.backward()
        losses.append(loss.item())
        if step:
            optimizer.step()
            optimizer.zero_grad()

    if KIND == "plain":
        for x in DataLoader(Samples(STEPS), batch_size=1):
            train(x)
    elif KIND == "workers":
        method = sys.argv[3]
        for x in DataLoader(Samples(STEPS), batch_size=1, num_workers=2, multiprocessing_context=method):
            train(x)
    elif KIND == "tensors":  # no DataLoader
        for i in range(STEPS):
            train(torch.full((1, 16), i / 10.0))
    elif KIND == "accumulate":
        for i, x in enumerate(DataLoader(Samples(3 * STEPS), batch_size=1)):
            train(x, i % 3 == 2)
    elif KIND == "evaluate":
        for _ in range(3):
            model.train()
            for x in DataLoader(Samples(STEPS // 3), batch_size=1):
                train(x)
            model.eval()
            with torch.no_grad():
                for x in DataLoader(Samples(5), batch_size=1):
                    work(0.04)
                    model(x)
    elif KIND == "gan":
        other = net()
        second = torch.optim.Adam(other.parameters(), lr=0.01)
        for x in DataLoader(Samples(STEPS), batch_size=1):
            train(x)
            second.zero_grad()
            other(model(x).detach()).pow(2).mean().backward()
            second.step()
    elif KIND == "two":  # optimizers of one model
        second = torch.optim.Adam(model[0].parameters(), lr=0.001)
        for x in DataLoader(Samples(STEPS), batch_size=1):
            model(x).pow(2).mean().backward()
            optimizer.step()
            second.step()
            optimizer.zero_grad()
    elif KIND == "marked":
        from tracesmith import marks

        for i, x in enumerate(DataLoader(Samples(STEPS), batch_size=1)):
            with marks.step(100 + i):
                train(x)
    elif KIND == "logged":  # behind the optimizer, as most do, and a table
        import tracesmith

        evals = tracesmith.table("evals", {"step": int, "score": float, "split": str})
        for i, x in enumerate(DataLoader(Samples(STEPS), batch_size=1)):
            optimizer.param_groups[0]["lr"] = 0.5 ** i
            train(x)
            tracesmith.log(loss=i, nothing=None)
            evals.append(score=i / 4, split="odd" if i % 2 else "even")
        evals.append(step=100, score=9)
    elif KIND == "scaled":  # a GradScaler that finds inf in steps 2 and 3; it has no GPU: what it finds is stood in for
        torch.cuda.amp.grad_scaler.amp_definitely_not_available = lambda: False
        newer = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")
        scaler = torch.amp.GradScaler("cpu") if newer else torch.cuda.amp.GradScaler()
        scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
        for i, x in enumerate(DataLoader(Samples(STEPS), batch_size=1)):
            work()
            model(x).pow(2).mean().backward()
            inf = torch.tensor(float(i in (2, 3)))
            scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {torch.device("cpu"): inf}
            scaler.unscale_ = lambda _: None
            scaler.step(optimizer)
            scaler._per_optimizer_states.clear()
            optimizer.zero_grad()
    elif KIND == "profiled":
        with torch.profiler.profile() as profiler:
            for x in DataLoader(Samples(STEPS), batch_size=1):
                train(x)
                profiler.step()
    elif KIND == "pauses":
        import gc

        for i, x in enumerate(DataLoader(Samples(STEPS), batch_size=1)):
            train(x)
            if i == 2:
                torch.save({"x": torch.zeros(200000)}, sys.argv[3])
            if i == 3:
                rubbish = [[j] for j in range(200000)]
                gc.collect()
                del rubbish
    elif KIND == "fork":  # ranks that are forked, and know their number only from an argument
        from torch.multiprocessing import start_processes

        start_processes(forked, nprocs=2, start_method="fork")
    elif KIND == "unused":  # on rank 1, step 3 does without a layer: its gradients never come
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        class Branch(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

            def forward(self, x, both):
                return self.second(self.first(x)) if both else self.first(x)

        dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=RANK,
                                world_size=int(os.environ["WORLD_SIZE"]))
        model = DistributedDataParallel(Branch())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for i, x in enumerate(DataLoader(Samples(STEPS), batch_size=1)):
            work()
            optimizer.zero_grad(set_to_none=True)
            model(x, RANK != 1 or i != 3).pow(2).mean().backward()
            optimizer.step()
            if RANK == 1 and i == 3:
                time.sleep(3)
    elif KIND == "ddp":
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=RANK,
                                world_size=int(os.environ["WORLD_SIZE"]))
        pair = dist.new_group([0, 1])
        model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x in DataLoader(Samples(STEPS), batch_size=1):
            work()
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            later = dist.all_reduce(total, async_op=True)
            if RANK == 0:
                dist.send(torch.zeros(4), 1)
            elif RANK == 1:
                dist.recv(torch.zeros(4), 0)
            later.wait()
            if RANK < 2:
                dist.broadcast(total, 1, group=pair)
            losses.append(total.item())
            if "EVALUATE" in os.environ and len(losses) % 4 == 0:
                model.eval()
                for x in DataLoader(Samples(5), batch_size=1):
                    work(0.04)
                    model.module(x)
                model.train()
        dist.barrier()
        if RANK < 2:  # nobody keeps a group that is gone
            gone = weakref.ref(pair)
            dist.destroy_process_group(pair)
            del pair
            assert gone() is None
    if RANK == 0:
        print(" ".join(map(float.hex, losses)))


if __name__ == "__main__":
    main()
