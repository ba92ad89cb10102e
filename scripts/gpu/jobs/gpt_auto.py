"""A small GPT that marks nothing: gpt_auto.py [--steps N] [--compile] [--deterministic] [--amp] [--stall] [--eval]

Run alone it checks what the hooks say: it runs itself without TraceSmith and under `tracesmith run` (path in $TS, default build/bin/tracesmith), in turn, and
compares losses (the same bits), steps, phases, stalls, memory and the median step. Prints one line a check and exits with the number that failed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--deterministic", action="store_true", help="let torch use deterministic kernels only, and compile once for all runs")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--stall", action="store_true", help="call .item() in the loop")
    parser.add_argument("--eval", action="store_true", help="evaluate every 20 steps")
    parser.add_argument("--train", help="train, and write what happened to this file")
    return parser.parse_args()


def train(o):
    import torch
    from torch.utils.data import DataLoader, Dataset

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(o.deterministic)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    width, heads, layers, length, batch = (512, 8, 12, 256, 8) if device == "cuda" else (32, 2, 2, 16, 2)

    class Tokens(Dataset):
        def __len__(self):
            return o.steps * batch

        def __getitem__(self, i):
            return torch.randint(0, 1000, (length + 1,), generator=torch.Generator().manual_seed(i))

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.attn = torch.nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

        def forward(self, x, mask):
            h = self.ln1(x)
            x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
            return x + self.mlp(self.ln2(x))

    class Gpt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(1000, width)
            self.blocks = torch.nn.ModuleList(Block() for _ in range(layers))
            self.head = torch.nn.Linear(width, 1000)
            self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))

        def forward(self, x):
            x = self.embed(x)
            for block in self.blocks:
                x = block(x, self.mask)
            return self.head(x)

    model = Gpt().to(device)
    run = torch.compile(model) if o.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(Tokens(), batch_size=batch, num_workers=2, pin_memory=device == "cuda", persistent_workers=True)
    others = DataLoader(Tokens(), batch_size=batch)  # to evaluate with
    losses, times, stall_line = [], [], None
    last = time.perf_counter()
    for i, tokens in enumerate(loader):
        tokens = tokens.to(device, non_blocking=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=o.amp):
            out = run(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(out.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if o.stall:
            stall_line = sys._getframe().f_lineno + 1
            loss.item()
        if i % 10 == 9 and device == "cuda":
            torch.cuda.synchronize()
        if o.eval and i % 20 == 19:
            model.eval()
            with torch.no_grad():
                for j, batch_ in enumerate(others):
                    run(batch_[:, :-1].to(device))
                    if j == 4:
                        break
            model.train()
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    bits = [float(x).hex() for x in losses]
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    allocated = torch.cuda.memory_allocated() if device == "cuda" else None
    with open(o.train, "w") as f:
        json.dump({"losses": bits, "times": times, "stall_line": stall_line, "peak": peak, "allocated": allocated, "device": device,
                   "torch": torch.__version__}, f)


def main():
    o = options()
    if o.train:
        return train(o)
    ts = os.environ.get("TS", os.path.join(HERE, "../../../build/bin/tracesmith"))
    folder = tempfile.mkdtemp(prefix="gpt_auto")
    trace = os.path.join(folder, "job.sbt")
    own = [sys.executable, os.path.abspath(__file__), "--steps", str(o.steps)] + [f"--{n}" for n in ("compile", "deterministic", "amp", "stall", "eval") if getattr(o, n)]
    # What Python's hooks cost is the difference of the last two: in both CUPTI records all the time.
    ways = {"untouched": [], "no hooks": [ts, "run", "--force", "--no-python", "-o", trace, "--"], "hooks": [ts, "run", "--force", "-o", trace, "--"]}
    found = {name: [] for name in ways}
    if o.deterministic:
        os.environ.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "compiled"))
        subprocess.run(own + ["--train", os.path.join(folder, "first.json")], check=True, stdout=subprocess.DEVNULL)
    for _ in range(o.rounds):
        for name, before in ways.items():
            file = os.path.join(folder, "truth.json")
            done = subprocess.run(before + own + ["--train", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            if done.returncode != 0:
                print(f"failed: {name}: {done.stdout[-2000:]}")
                return 1
            for line in done.stdout.splitlines():
                if "hook" in line:
                    print(f"said under {name}: {line}")
            found[name].append(json.load(open(file)))
    truth = found["hooks"][-1]
    failed = 0

    def check(text, good):
        nonlocal failed
        failed += not good
        print(("ok: " if good else "FAILED: ") + text)

    def ask(sql):
        done = subprocess.run([ts, "query", "--format", "json", "--max-rows", "0", trace, sql], stdout=subprocess.PIPE, universal_newlines=True, check=True)
        return json.loads(done.stdout) if done.stdout.strip() else []

    def one(sql):
        rows = ask(sql)
        return list(rows[0].values())[0] if rows else None

    print(f"torch {truth['torch']} on {truth['device']}, {o.steps} steps")
    different = {name: len({json.dumps(r["losses"]) for r in runs}) for name, runs in found.items()}
    check(f"losses are the same bits in all runs (different ones in {o.rounds} runs each: {different})",
          len({json.dumps(r["losses"]) for runs in found.values() for r in runs}) == 1)
    steps = one("SELECT count(*) FROM steps")
    check(f"{steps} steps recorded of {o.steps}", steps == o.steps)
    span = "(SELECT min(ts) FROM steps WHERE step >= 10)"
    share = one(f"SELECT sum(e.dur) / (SELECT sum(dur) FROM steps WHERE step >= 10) FROM events e WHERE e.name IN ('data', 'forward', 'backward', 'optimizer') "
                f"AND e.type = 'annotation' AND e.ts >= {span} AND e.ts_end <= (SELECT max(ts_end) FROM steps)")
    off = one("SELECT count(*) FROM steps WHERE step BETWEEN 20 AND 23")  # steps without hooks, to see what they cost
    expected = 1 - (off / max(1, steps - 10) if steps > 23 else 0)
    check(f"phases are {100 * share:.1f} % of the steps with hooks ({100 * expected:.1f} % of all)", o.eval or abs(share / expected - 1) < 0.02)
    if truth["device"] == "cuda":
        said = one("SELECT value FROM counters WHERE name = 'memory allocated, peak' ORDER BY ts DESC LIMIT 1")
        check(f"peak of memory {said} is {truth['peak']}", said == truth["peak"])
        if o.stall:
            where = f"stall: Tensor.item at {os.path.basename(__file__)}:{truth['stall_line']}"
            count = one(f"SELECT count(*) FROM events WHERE name = '{where}'")
            check(f"{count} stalls: {where}", count >= o.steps / 2)
    if o.eval:
        check("evaluations are no steps", one("SELECT count(*) FROM events WHERE name = 'evaluation'") >= 1)
    medians = {name: [statistics.median(r["times"][10:]) for r in runs] for name, runs in found.items()}
    for name, values in medians.items():
        ratios = [v / b for v, b in zip(values, medians["untouched"])]
        print(f"{name}: step {1000 * statistics.median(values):.3f} ms, {100 * (statistics.median(ratios) - 1):+.2f} % (rounds: {', '.join(f'{100 * (r - 1):+.1f}' for r in ratios)})")
    ratios = [a / b for a, b in zip(medians["hooks"], medians["no hooks"])]
    print(f"hooks alone: {100 * (statistics.median(ratios) - 1):+.2f} % (budget 1 %)")
    cost = ask("SELECT rank, value FROM counters WHERE name = 'tracesmith: cost of hooks %'")
    print(f"hooks by their own clock: {[round(row['value'], 3) for row in cost]} %")
    print(f"trace: {trace}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
