"""A small GPT on one GPU, as a job for scripts/gpu-verify. The first argument selects what it does.

steps N           N training steps, each in an NVTX range
torch-profiler    5 steps under torch.profiler (prints what it saw), then 5 more after it
graph             100 replays of a captured CUDA graph
overhead          steps with recording switched on and off in turn; prints the median cost
floor             the same for CUPTI's kernel records, which are discarded (FLOOR: the compiled floor.c)
peer              the same for torch.profiler (CUDA only)
SIZE=large makes the step GPU-bound. The default is launch-bound, with many short kernels.
"""
import ctypes
import gc
import glob
import mmap
import os
import statistics
import struct
import sys
import time

import torch
from torch import nn

LARGE = os.environ.get("SIZE") == "large"
WIDTH, HEADS, LAYERS, TOKENS, BATCH = (2048, 16, 8, 1024, 16) if LARGE else (512, 8, 12, 256, 8)
WORDS = 8192
RECORDING_OFFSET = 120  # of RingHeader::recording, see src/model/ring/layout.hpp


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

    def timed(self, steps):
        times = []
        for _ in range(steps):
            begin = time.perf_counter()
            self.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)


def cpu_of_threads():
    """CPU time so far in ns: of the probe's thread, and of all other threads."""
    ours = others = 0
    for task in glob.glob("/proc/self/task/*"):
        try:
            used = int(open(task + "/schedstat").read().split()[0])
            if open(task + "/comm").read().strip() == "tracesmith":
                ours += used
            else:
                others += used
        except OSError:
            pass
    return ours, others


def alternate(job, switch, pairs, steps):
    """Cost of switch(True) compared with switch(False), in turn: median, quartiles, and the 95 % interval of the median (by order statistics)."""
    cost, base, extra = [], [], []
    for pair in range(pairs):
        took, used = {}, {}
        for on in (pair % 2 == 0, pair % 2 == 1):
            switch(on)
            job.timed(2)
            before = cpu_of_threads()
            took[on] = job.timed(steps)
            used[on] = [(b - a) / steps / 1e6 for a, b in zip(before, cpu_of_threads())]
        cost.append(100 * (took[True] / took[False] - 1))
        base.append(1e3 * took[False])
        extra.append((used[True][0], used[True][1] - used[False][1]))
    cost.sort()
    half = 0.98 * pairs ** 0.5
    low, high = cost[max(0, int(pairs / 2 - half))], cost[min(pairs - 1, int(pairs / 2 + half))]
    ours, others = (statistics.median(column) for column in zip(*extra))
    return (f"base {statistics.median(base):.2f} ms, cost {statistics.median(cost):+.2f} % (median within {low:+.2f} .. {high:+.2f}; "
            f"quartiles {cost[pairs // 4]:+.2f}, {cost[3 * pairs // 4]:+.2f}); CPU a step: probe's thread {ours:.2f} ms, all others {others:+.2f} ms")


def main():
    what = sys.argv[1]
    if what == "floor":
        library = ctypes.CDLL(os.environ["FLOOR"])  # scripts/gpu/floor.c
        path = next(line.split()[-1] for line in open("/proc/self/maps") if "libcupti" in line)
        if library.floor_begin(path.encode()) != 0:
            sys.exit("libcupti cannot be used")
    job = Job()
    size = "GPU-bound" if LARGE else "launch-bound"
    pairs, steps = int(os.environ.get("PAIRS", "24")), 8
    gc.collect()
    gc.disable()  # its pauses would add noise to the launch-bound step
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
    elif what == "overhead":
        ring = glob.glob(os.environ["TRACESMITH_DIR"] + f"/{os.getpid()}.*.ring")[0]
        header = mmap.mmap(os.open(ring, os.O_RDWR), 4096)

        def switch(on):
            header[RECORDING_OFFSET:RECORDING_OFFSET + 4] = struct.pack("I", on)
            time.sleep(0.15)  # the probe checks every 100 ms

        print(f"{os.environ['TRACESMITH_MODE']}, {size}: {alternate(job, switch, pairs, steps)}", flush=True)
    elif what == "peer":
        profiler = None

        def torch_profiler(on):
            nonlocal profiler
            if profiler:
                profiler.stop()
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) if on else None
            if profiler:
                profiler.start()

        print(f"torch.profiler (CUDA only), {size}: {alternate(job, torch_profiler, max(8, pairs // 3), steps)}", flush=True)
        torch_profiler(False)
    elif what == "floor":
        for often, how in ((0, "in full buffers"), (1, "handed over every 100 ms")):

            def floor(on):
                library.floor_switch(on, often)
                time.sleep(0.15)

            print(f"CUPTI kernel records, {how}, thrown away, {size}: {alternate(job, floor, pairs, steps)}", flush=True)


main()
