"""Mixture of experts: one expert a rank, tokens go there and back by all_to_all_single, forward and backward; gradients of the router are reduced."""
import torch
import torch.distributed as dist
import torch.nn as nn

from common import Block, main

WIDTH, LAYERS, TOKENS = 512, 3, 4096


class Moe:
    def __init__(self, job):
        self.job = job
        experts = [Block(WIDTH) for _ in range(LAYERS)]
        self.routers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).to(job.device)
        self.experts = nn.ModuleList(experts).to(job.device)
        self.optimizer = torch.optim.AdamW([*self.routers.parameters(), *self.experts.parameters()], lr=1e-4)
        self.x = job.random(TOKENS, WIDTH)

        class AllToAll(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return self.exchange(x)

            @staticmethod
            def backward(ctx, gradient):
                return self.exchange(gradient)

        self.all_to_all = AllToAll.apply

    def exchange(self, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        self.job.called("all_to_all")
        return out

    def step(self):
        x = self.x
        for layer, (router, expert) in enumerate(zip(self.routers, self.experts)):
            if layer == 1:
                self.job.in_forward()
            x = self.all_to_all(expert(self.all_to_all(router(x))))
        loss = x.square().mean()
        loss.backward()
        for p in self.routers.parameters():
            dist.all_reduce(p.grad)
            self.job.called("all_reduce")
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


if __name__ == "__main__":
    main({"moe": Moe})
