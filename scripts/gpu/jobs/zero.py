"""Sharded parameters as in ZeRO: all_gathers of one layer in one group, reduce_scatters of its gradients in one group."""
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from common import main

WIDTH, LAYERS, PARTS, TOKENS = 1024, 4, 3, 4096


class Zero:
    def __init__(self, job):
        self.job = job
        shape = (WIDTH, WIDTH // job.ranks)
        self.shards = [[job.random(*shape) * 0.02 for _ in range(PARTS)] for _ in range(LAYERS)]
        self.full = [torch.empty(WIDTH, WIDTH, device=job.device) for _ in range(PARTS)]
        self.gradients = [torch.empty(WIDTH, WIDTH, device=job.device) for _ in range(PARTS)]
        self.x = job.random(TOKENS, WIDTH)

    def gather(self, layer):
        # torch collects them and calls one function with all tensors, which NCCL runs as one kernel.
        with _coalescing_manager(async_ops=True) as group:
            for full, shard in zip(self.full, self.shards[layer]):
                dist.all_gather_into_tensor(full.view(-1), shard.view(-1))
        group.wait()
        self.job.called("all_gather", count=PARTS)

    def scatter(self, layer):
        outs = [torch.empty_like(shard) for shard in self.shards[layer]]
        with _coalescing_manager(async_ops=True) as group:
            for out, gradient in zip(outs, self.gradients):
                dist.reduce_scatter_tensor(out.view(-1), gradient.view(-1))
        group.wait()
        self.job.called("reduce_scatter", count=PARTS)
        for shard, out in zip(self.shards[layer], outs):
            shard.sub_(out, alpha=1e-6)

    def step(self):
        x, inputs = self.x, []
        for layer in range(LAYERS):
            self.gather(layer)
            if layer == LAYERS // 2:
                self.job.in_forward()
            for part in self.full:
                inputs.append(x)
                x = torch.tanh(x @ part)
        gradient = x * 1e-3
        for layer in reversed(range(LAYERS)):
            self.gather(layer)
            for i in reversed(range(PARTS)):
                self.gradients[i] = inputs.pop().T @ gradient
                gradient = gradient @ self.full[i].T
            self.scatter(layer)
        return gradient.mean()


if __name__ == "__main__":
    main({"zero": Zero})
