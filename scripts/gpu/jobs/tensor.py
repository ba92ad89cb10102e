"""Tensor parallel: DTensor's parallelize_module; an all_reduce of the activations in every block, forward and backward."""
import torch
import torch.nn as nn

from common import Block, Hook, main

WIDTH, BLOCKS, TOKENS = 1024, 4, 2048


class Tensor:
    def __init__(self, job):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        self.job = job
        mesh = init_device_mesh("cuda" if job.cuda else "cpu", (job.ranks,))
        blocks = [Block(WIDTH).to(job.device) for _ in range(BLOCKS)]
        for block in blocks:  # all ranks have the same weights already (the same seed)
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}, src_data_rank=None)
        self.model = nn.Sequential(*blocks[:2], Hook(job), *blocks[2:])
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=False)
        self.x = job.random(TOKENS, WIDTH)

    def step(self):
        loss = self.model(self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


if __name__ == "__main__":
    main({"tp": Tensor})
