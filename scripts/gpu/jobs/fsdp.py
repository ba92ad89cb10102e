"""FSDP2 (fully_shard), with parameters freed after the forward pass or kept."""
import torch
import torch.nn as nn

from common import Block, Hook, main

WIDTH, BLOCKS, TOKENS = 512, 6, 4096


class Fsdp:
    reshard = True

    def __init__(self, job):
        from torch.distributed.fsdp import fully_shard

        self.job = job
        blocks = [Block(WIDTH) for _ in range(BLOCKS)]
        self.model = nn.Sequential(*blocks[:3], Hook(job), *blocks[3:]).to(job.device)
        for layer in self.model:
            if isinstance(layer, Block):
                fully_shard(layer, reshard_after_forward=self.reshard)
        fully_shard(self.model, reshard_after_forward=self.reshard)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = job.random(TOKENS, WIDTH)

    def step(self):
        loss = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


class Kept(Fsdp):
    reshard = False


if __name__ == "__main__":
    main({"fsdp": Fsdp, "fsdp-keep": Kept})
