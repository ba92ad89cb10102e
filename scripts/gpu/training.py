"""A small GPT on one GPU, as a job for scripts/gpu-verify. The first argument selects what it does.

steps N           N training steps, each in an NVTX range
torch-profiler    5 steps under torch.profiler (prints what it saw), then 5 more after it
graph             100 replays of a captured CUDA graph
windows N         N marked steps, each with a replay of a graph, while a second thread launches kernels all the time: for watch mode, whose windows come and go
measure FOLDER [torch.profiler]
                  for scripts/gpu/overhead.py: imports, says that it is ready (FOLDER/ready), and for each line "SIZE STEPS" in FOLDER/go runs and times
                  that many steps; FOLDER/turn-N.json has the times of the N-th line. "drop-SIZE 0" frees the model, "end 0" ends
SIZE=large makes the step GPU-bound. The default is launch-bound, with many short kernels.
"""
import gc
import json
import os
import statistics
import sys
import threading
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


class Turns:
    """Runs steps when it is told to, marked with NVTX ranges and timed one by one."""

    def __init__(self, folder, profiled):
        self.folder, self.profiled, self.jobs, self.done, self.steps = folder, profiled, {}, 0, 0

    def job(self, size):
        choose(size)
        if size not in self.jobs:
            self.jobs[size] = Job()
            gc.collect()
            gc.disable()  # its pauses would add noise to the launch-bound step
        return self.jobs[size]

    def turn(self, size, steps):
        job = self.job(size)
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) if self.profiled else None
        if profiler:
            profiler.start()
        for _ in range(2):  # what the sleep of the others' turns and a profiler's start cost is not the cost of a step
            job.step()
        torch.cuda.synchronize()
        times, used = [], time.process_time()
        for _ in range(steps):
            begin = time.perf_counter()
            torch.cuda.nvtx.range_push(f"step {self.steps}")
            job.step()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            self.steps += 1
            times.append(1e3 * (time.perf_counter() - begin))
        used = time.process_time() - used
        if profiler:
            profiler.stop()
        return {"median_ms": statistics.median(times), "mean_ms": statistics.mean(times), "cpu_ms": 1e3 * used / steps, "steps_run": steps + 2}

    def drop(self, size):
        self.jobs.pop(size, None)
        gc.collect()
        torch.cuda.empty_cache()
        return {}

    def run(self):
        open(os.path.join(self.folder, "ready"), "w").close()
        for line in open(os.path.join(self.folder, "go")):
            what, steps = line.split()
            if what == "end":
                return
            figures = self.drop(what[5:]) if what.startswith("drop-") else self.turn(what, int(steps))
            self.done += 1
            reply = os.path.join(self.folder, f"turn-{self.done}.json")
            with open(reply + ".new", "w") as out:
                json.dump(figures, out)
            os.rename(reply + ".new", reply)


def main():
    what = sys.argv[1]
    if what == "measure":
        Turns(sys.argv[2], "torch.profiler" in sys.argv[3:]).run()
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
    elif what == "windows":
        x, y, graph, running = torch.randn(256, 256, device="cuda"), torch.zeros(64, device="cuda"), torch.cuda.CUDAGraph(), [True]
        with torch.cuda.graph(graph):
            torch.tanh(x @ x)

        def launch():
            with torch.cuda.stream(torch.cuda.Stream()):
                while running:
                    for _ in range(50):
                        y.add_(1)
                    torch.cuda.current_stream().synchronize()

        other = threading.Thread(target=launch)
        other.start()
        for i in range(int(sys.argv[2])):
            torch.cuda.nvtx.range_push(f"step {i}")
            job.step()
            graph.replay()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
        running.clear()
        other.join()
        print(f"{sys.argv[2]} steps, {int(y[0]) // 50} turns of the other thread", flush=True)
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


if __name__ == "__main__":
    main()
