"""What the hooks of torch cost a training step on a CPU, against processes that TraceSmith never touched.

hook_cost.py [--rounds N] [--steps N] [--layers N] trains the same small GPT in four processes in each round, one after the other, in an order that
changes: two untouched, one under `tracesmith run --no-python`, one under `tracesmith run`. The figure of a process is the lower quartile of the CPU time that
the training thread takes for a step: other programs disturb it least. It is held against the first untouched process of the round.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

VARIANTS = ("untouched", "untouched again", "without hooks", "with hooks")


def train(o):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
            x = x + self.proj(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2))
            return x + self.mlp(self.ln2(x))

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(100, 32), *(Block(32, 2) for _ in range(o.layers)), nn.Linear(32, 100))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    samples = [torch.randint(0, 100, (16,)) for _ in range(4 * (o.steps + 110))]
    took = []
    last = time.thread_time_ns()
    for x in DataLoader(samples, batch_size=4):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        now = time.thread_time_ns()
        took.append(now - last)
        last = now
    print(statistics.quantiles(took[110:])[0])  # behind most steps in which modules are sampled or operations counted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.train:
        return train(o)
    ts = os.environ.get("TS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/bin/tracesmith"))
    own = [sys.executable, os.path.abspath(__file__), "--train", "--layers", str(o.layers), "--steps", str(o.steps)]
    found, clock = {v: [] for v in VARIANTS}, []
    with tempfile.TemporaryDirectory(prefix="hook_cost") as folder:
        trace = os.path.join(folder, "job.sbt")
        recorded = [ts, "run", "--force", "--no-telemetry", "-o", trace]
        commands = dict(zip(VARIANTS, (own, own, recorded + ["--no-python", "--"] + own, recorded + ["--"] + own)))
        # The hooks stay on, also where they cost more than 1 %: that is what is measured.
        environment = dict(os.environ, OMP_NUM_THREADS="1", TRACESMITH_BUDGET_PPM="1000000")
        for _ in range(o.rounds):
            for variant in random.sample(VARIANTS, len(VARIANTS)):
                done = subprocess.run(commands[variant], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, check=True)
                found[variant].append(float(done.stdout) / 1e3)
                if variant == "with hooks":
                    sql = "SELECT median(c.value) * median(s.dur) / 1e5 AS us FROM steps s, counters c WHERE c.name = 'tracesmith: cost of hooks %'"
                    said = subprocess.run([ts, "query", "--format", "json", trace, sql], stdout=subprocess.PIPE, check=True)
                    clock.append(json.loads(said.stdout)[0]["us"])
    base = found["untouched"]
    print("step of an untouched process: %.0f µs of CPU time; the hooks as they count themselves: %.0f µs" % (statistics.median(base), statistics.median(clock)))
    for variant in VARIANTS[1:]:
        extra = [a - b for a, b in zip(found[variant], base)]
        error = 2 * statistics.stdev(extra) / len(extra) ** 0.5 if len(extra) > 1 else float("nan")
        mean = statistics.mean(extra)
        print("%-16s %+.0f ± %.0f µs, %+.2f ± %.2f %%" % (variant, mean, error, 100 * mean / statistics.mean(base), 100 * error / statistics.mean(base)))


if __name__ == "__main__":
    main()
