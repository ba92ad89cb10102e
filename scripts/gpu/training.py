"""A small GPT on one GPU, as a job for scripts/gpu-verify. The first argument selects what it does.

steps N           N training steps, each in an NVTX range
torch-profiler    5 steps under torch.profiler (prints what it saw), then 5 more after it
graph             100 replays of a captured CUDA graph
measure PLAN FOLDER [torch.profiler]
                  for scripts/gpu/overhead.py: imports, says that it is ready (FOLDER/ready), waits for its turn (FOLDER/go) and measures
                  the steps of PLAN ("small=40,large=15"); FOLDER/figures.json has the times
SIZE=large makes the step GPU-bound. The default is launch-bound, with many short kernels.
"""
import gc
import json
import os
import statistics
import sys
import time

import torch
from torch import nn

WORDS = 8192


def choose(size):
    global LARGE, WIDTH, HEADS, LAYERS, TOKENS, BATCH
    LARGE = size == "large"
    WIDTH, HEADS, LAYERS, TOKENS, BATCH = (2048, 16, 8, 1024, 16) if LARGE else (512, 8, 12, 256, 8)


choose(os.environ.get("SIZE", "small"))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention_in, self.attention_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        parts = self.attention_in(self.norm1(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Job:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Layer() for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, foreach=LARGE)
        self.words = torch.randint(0, WORDS, (BATCH, TOKENS + 1), device="cuda")
        for _ in range(20):
            self.step()
        torch.cuda.synchronize()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = self.model(self.words[:, :-1])
            loss = nn.functional.cross_entropy(out.reshape(-1, WORDS), self.words[:, 1:].reshape(-1))
        loss.backward()
        self.optimizer.step()


def measure(plan, folder, profiled):
    """Steps of each size in turn, marked with NVTX ranges and timed one by one."""
    open(os.path.join(folder, "ready"), "w").close()
    with open(os.path.join(folder, "go")) as go:
        go.readline()
    figures = {}
    for part in plan.split(","):
        size, steps = part.split("=")
        choose(size)
        job = Job()
        gc.collect()
        gc.disable()  # its pauses would add noise to the launch-bound step
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) if profiled else None
        if profiler:
            profiler.start()
            for _ in range(3):  # what it does at first is not its cost
                job.step()
            torch.cuda.synchronize()
        times = []
        used = time.process_time()
        for i in range(int(steps)):
            begin = time.perf_counter()
            torch.cuda.nvtx.range_push(f"step {i}")
            job.step()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            times.append(1e3 * (time.perf_counter() - begin))
        used = time.process_time() - used
        if profiler:
            profiler.stop()
        figures[size] = {"median_ms": statistics.median(times), "mean_ms": statistics.mean(times), "cpu_ms": 1e3 * used / len(times), "times_ms": times}
        del job
        gc.enable()
        gc.collect()
        torch.cuda.empty_cache()
    with open(os.path.join(folder, "figures.json"), "w") as out:
        json.dump(figures, out)


def main():
    what = sys.argv[1]
    if what == "measure":
        measure(sys.argv[2], sys.argv[3], "torch.profiler" in sys.argv[4:])
        return
    job = Job()
    if what == "steps":
        for i in range(int(sys.argv[2])):
            torch.cuda.nvtx.range_push(f"step {i}")
            job.step()
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
    elif what == "torch-profiler":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(5):
                job.step()
            torch.cuda.synchronize()
        device = [e for e in profiler.profiler.kineto_results.events() if e.device_type() == torch._C._autograd.DeviceType.CUDA]
        kernels = [e for e in device if not e.name().startswith(("Mem", "Event", "Stream", "Context", "Optimizer"))]
        print(f"torch.profiler: {len(kernels)} kernels in 5 steps, {sum(e.duration_ns() for e in kernels) / 5e6:.3f} ms a step", flush=True)
        time.sleep(3)
        for i in range(5):
            torch.cuda.nvtx.range_push(f"after {i}")
            job.step()
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
    elif what == "graph":
        x = torch.randn(256, 256, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x
            for _ in range(20):
                y = torch.tanh(y @ x)
        for _ in range(100):
            graph.replay()
        torch.cuda.synchronize()
        print("graph replayed", flush=True)


main()
