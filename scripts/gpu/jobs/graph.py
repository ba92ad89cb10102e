"""Collectives inside a CUDA graph: each step replays a graph with computation, two all_reduces and an all_gather."""
import torch
import torch.distributed as dist

from common import main

WIDTH, LAYERS, TOKENS = 1024, 8, 2048


class Graph:
    def __init__(self, job):
        self.job = job
        self.x = job.random(TOKENS, WIDTH)
        self.w = [job.random(WIDTH, WIDTH) * 0.02 for _ in range(LAYERS)]
        self.gradients = [job.random(1 << 21) for _ in range(2)]
        self.part, self.whole = job.random(1 << 19), torch.empty(job.ranks << 19, device=job.device)
        self.out = torch.zeros(1, device=job.device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream().wait_stream(stream)
        job.meet()
        calls = list(job.calls)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.body()
        self.in_graph = job.calls[len(calls):]  # called by each replay, not by the capture
        job.calls = calls
        job.meet()

    def body(self):
        x = self.x
        for i, w in enumerate(self.w):
            x = torch.tanh(x @ w)
            if i in (2, 5):
                dist.all_reduce(self.gradients[i // 3])
                self.gradients[i // 3].mul_(0.25)
                self.job.called("all_reduce")
        dist.all_gather_into_tensor(self.whole, self.part)
        self.job.called("all_gather")
        self.out.copy_(x.mean() + self.whole[0])

    def step(self):
        self.job.in_forward()
        self.graph.replay()
        self.job.calls += self.in_graph
        return self.out


if __name__ == "__main__":
    main({"graph": Graph})
