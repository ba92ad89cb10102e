"""Collectives inside a CUDA graph: each step replays a graph with computation, two all_reduces and an all_gather, and calls others in between.

In the middle of the job the graph is thrown away and captured anew; a second graph is never launched."""
import torch
import torch.distributed as dist

from common import main

WIDTH, LAYERS, TOKENS = 1024, 8, 2048
ANEW = 16  # the step in which the graph is captured anew


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
        self.number = 0
        self.unused = self.capture()
        self.graph = self.capture()

    def capture(self):
        job, calls = self.job, list(self.job.calls)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.body()
        self.in_graph = job.calls[len(calls):]  # called by each replay, not by the capture
        job.calls = calls
        job.meet()
        return graph

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
        self.number += 1
        if self.number == ANEW:
            self.graph = None
            self.graph = self.capture()
        self.job.in_forward()
        self.graph.replay()
        self.job.calls += self.in_graph
        dist.all_reduce(self.out)  # called between the replays
        self.job.called("all_reduce")
        if self.number % 3 == 0:
            dist.broadcast(self.part, 0)
            self.job.called("broadcast")
        return self.out


if __name__ == "__main__":
    main({"graph": Graph, "graph-whole": Graph})  # the second is recorded without the kernels in graphs
