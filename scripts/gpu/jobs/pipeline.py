"""Pipelines with one stage a rank: torch.distributed.pipelining (GPipe, 1F1B), send and recv, and batch_isend_irecv."""
import torch
import torch.distributed as dist
import torch.nn as nn

from common import Block, Hook, main

WIDTH, BLOCKS, TOKENS, MICROBATCHES = 1024, 2, 2048, 4


class Pipeline:
    def __init__(self, job):
        self.job = job
        job.parts = MICROBATCHES
        self.width, self.tokens = (WIDTH, TOKENS) if job.cuda else (64, 64)
        self.stage = nn.Sequential(*[Block(self.width) for _ in range(BLOCKS)], Hook(job)).to(job.device)
        self.optimizer = torch.optim.AdamW(self.stage.parameters(), lr=1e-4)
        self.first, self.last = job.rank == 0, job.rank == job.ranks - 1
        self.before, self.after = job.rank - 1, job.rank + 1
        self.x = job.random(self.tokens, self.width)

    def empty(self):
        return torch.empty(self.tokens, self.width, device=self.job.device)

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


class Scheduled(Pipeline):
    name = "ScheduleGPipe"

    def __init__(self, job):
        import torch.distributed.pipelining as pipelining

        super().__init__(job)
        stage = pipelining.PipelineStage(self.stage, job.rank, job.ranks, job.device)  # shapes travel in the first step
        self.schedule = getattr(pipelining, self.name)(stage, MICROBATCHES, loss_fn=lambda y, target: (y - target).square().mean())
        self.batch = job.random(MICROBATCHES * self.tokens, self.width)

    def step(self):
        if self.first:
            self.schedule.step(self.batch)
        elif self.last:
            self.schedule.step(target=self.batch, losses=[])
        else:
            self.schedule.step()
        self.update()


class OneForwardOneBackward(Scheduled):
    name = "Schedule1F1B"


class Raw(Pipeline):
    """All forward, then all backward, with blocking calls. Communicators of two ranks are made at the first use."""

    lazy = True

    def send(self, tensor, to):
        dist.send(tensor, to)
        self.job.called("send", f"{self.job.rank}-{to}")

    def receive(self, source):
        tensor = self.empty()
        dist.recv(tensor, source)
        self.job.called("recv", f"{source}-{self.job.rank}")
        return tensor

    def step(self):
        kept = []
        for _ in range(MICROBATCHES):
            x = self.x if self.first else self.receive(self.before).requires_grad_()
            y = self.stage(x)
            if not self.last:
                self.send(y.detach(), self.after)
            kept.append((x, y))
        for x, y in kept:
            if self.last:
                y.square().mean().backward()
            else:
                y.backward(self.receive(self.after))
            if not self.first:
                self.send(x.grad, self.before)
        self.update()


class Batched(Pipeline):
    """The same; each result is sent together with the receive of the next input."""

    def exchange(self, tensor, to, source):
        """Sends (None: nothing) and receives (source None: nothing) in one group."""
        operations, received = [], None
        if tensor is not None:
            operations.append(dist.P2POp(dist.isend, tensor, to))
            self.job.called("send", f"{self.job.rank}-{to}")
        if source is not None:
            received = self.empty()
            operations.append(dist.P2POp(dist.irecv, received, source))
            self.job.called("recv", f"{source}-{self.job.rank}")
        if operations:
            for request in dist.batch_isend_irecv(operations):
                request.wait()
        return received

    def step(self):
        kept = []
        source, to = None if self.first else self.before, None if self.last else self.after
        x = self.exchange(None, None, source)
        for microbatch in range(MICROBATCHES):
            x = self.x if self.first else x.requires_grad_()
            y = self.stage(x)
            kept.append((x, y))
            more = microbatch + 1 < MICROBATCHES
            x = self.exchange(None if self.last else y.detach(), to, source if more else None)
        gradient = self.exchange(None, None, to)
        for microbatch, (x, y) in enumerate(kept):
            if self.last:
                y.square().mean().backward()
            else:
                y.backward(gradient)
            more = microbatch + 1 < MICROBATCHES
            gradient = self.exchange(None if self.first else x.grad, source, to if more else None)
        self.update()


if __name__ == "__main__":
    main({"pp-gpipe": Scheduled, "pp-1f1b": OneForwardOneBackward, "pp-raw": Raw, "pp-batch": Batched})
