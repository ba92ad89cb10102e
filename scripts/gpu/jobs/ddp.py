"""Data parallel: DDP with buckets and gradient accumulation, and the same compiled by torch.compile."""
import contextlib

import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

from common import Block, Hook, main

WIDTH, BLOCKS, TOKENS, MICROBATCHES = 512, 6, 4096, 2


class Ddp:
    def __init__(self, job):
        self.job = job
        width, tokens = (WIDTH, TOKENS) if job.cuda else (64, 64)
        job.parts = MICROBATCHES
        blocks = [Block(width) for _ in range(BLOCKS)]
        model = self.assemble(blocks).to(job.device)
        self.model = DistributedDataParallel(model, device_ids=[0] if job.cuda else None, bucket_cap_mb=8)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.x = job.random(tokens, width)

    def assemble(self, blocks):
        middle = len(blocks) // 2
        return nn.Sequential(*blocks[:middle], Hook(self.job), *blocks[middle:])

    def step(self):
        for microbatch in range(MICROBATCHES):
            last = microbatch == MICROBATCHES - 1
            with contextlib.nullcontext() if last else self.model.no_sync():
                loss = self.forward().square().mean()
                loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def forward(self):
        return self.model(self.x)


class Compiled(Ddp):
    def assemble(self, blocks):
        return torch.compile(nn.Sequential(*blocks))

    def forward(self):
        self.job.in_forward()
        return self.model(self.x)


if __name__ == "__main__":
    main({"ddp": Ddp, "compile": Compiled})
