"""GPT, ResNet-50 and BERT-base (random data) under the torch hooks, held against torch.profiler and torch.utils.flop_counter.

models_auto.py [--only CASE,...] [--seconds S] runs each case twice: untouched, then under `tracesmith run`; a third time untouched where losses differ (path in $TS, default
build/bin/tracesmith). Prints one JSON object a check: {"case", "check", "ok", figures}; "ok" is null where a figure is only told. Exits with
the number of checks that failed. Cases that do not fit into S seconds (default 540) are told and left out.

Without a GPU the models are tiny, and what needs one is left out.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 46
SAMPLED = (4, 10, 40)  # as docs/torch.md has them
# name: model, compiled, wrapper, ranks
CASES = {
    "gpt": ("gpt", False, None, 1),
    "resnet50": ("resnet", False, None, 1),
    "bert": ("bert", False, None, 1),
    "gpt ddp": ("gpt", False, "ddp", 2),
    "gpt fsdp2": ("gpt", False, "fsdp2", 2),
    "gpt compiled": ("gpt", True, None, 1),
    "resnet50 compiled": ("resnet", True, None, 1),
    "bert compiled": ("bert", True, None, 1),
}


# ---- the models

def build(torch, kind, cuda):
    """model, a function that gives sample i, batch size, whether products are bf16."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self, width, heads, causal):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            if hasattr(F, "scaled_dot_product_attention"):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            else:
                out = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v
            return self.proj(out.transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self, width, heads, causal):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = Attention(width, heads, causal)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.mlp(self.ln2(x))

    class Transformer(nn.Module):
        def __init__(self, width, heads, layers, length, words, causal):
            super().__init__()
            self.embed, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
            self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, x):
            x = self.embed(x) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    class Bottleneck(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            out = 4 * width
            self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inside != out:
                self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):
        def __init__(self, depths, width):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
            inside, layers = width, []
            for i, depth in enumerate(depths):
                blocks = []
                for j in range(depth):
                    blocks.append(Bottleneck(inside, width << i, 2 if j == 0 and i > 0 else 1))
                    inside = 4 * (width << i)
                layers.append(nn.Sequential(*blocks))
            self.layers, self.fc = nn.ModuleList(layers), nn.Linear(inside, 1000)

        def forward(self, x):
            x = self.stem(x)
            for layer in self.layers:
                x = layer(x)
            return self.fc(x.mean((2, 3)))

    def words(count, length):
        return lambda i: torch.randint(0, count, (length,), generator=torch.Generator().manual_seed(i))

    if kind == "resnet":
        depths, width, side, batch = ((3, 4, 6, 3), 64, 224, 64) if cuda else ((1, 1, 1), 8, 32, 2)
        pictures = torch.randn(16, 3, side, side, generator=torch.Generator().manual_seed(0))
        return ResNet(depths, width), lambda i: (pictures[i % 16], i % 1000), batch, False
    if kind == "bert":
        sizes, batch = ((768, 12, 12, 128, 30522, False), 32) if cuda else ((32, 2, 3, 8, 100, False), 2)
    else:
        sizes, batch = ((1024, 16, 12, 512, 32000, True), 8) if cuda else ((32, 2, 3, 16, 100, True), 2)
    return Transformer(*sizes), words(sizes[4], sizes[3]), batch, True


class Samples:
    def __init__(self, sample, count):
        self.sample, self.count = sample, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.sample(i)


def train(o):
    import torch
    from torch.utils.data import DataLoader

    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    if hasattr(torch.utils, "deterministic"):
        torch.utils.deterministic.fill_uninitialized_memory = False
    model, sample, batch, bf16 = build(torch, o.model, cuda)
    model = model.to(device)
    if cuda:
        torch.cuda.set_device(0)
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if cuda else "gloo", **({"device_id": torch.device("cuda:0")} if cuda else {}))
    run = model
    if o.wrap == "ddp":
        run = torch.nn.parallel.DistributedDataParallel(model)
    elif o.wrap == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    if o.compile:
        run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(data):
        if isinstance(data, (list, tuple)):
            x, y = (t.to(device, non_blocking=True) for t in data)
        else:
            x = data.to(device, non_blocking=True)
            y = x.roll(-1, 1).flatten()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=bf16 and cuda):
            out = run(x)
            loss = torch.nn.functional.cross_entropy(out.float().flatten(0, -2), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    result = {"torch": str(torch.__version__), "losses": [], "times": []}
    loader = DataLoader(Samples(sample, STEPS * batch), batch_size=batch, num_workers=2)
    last = time.perf_counter()
    for data in loader:
        result["losses"].append(step(data).hex())
        result["times"].append(time.perf_counter() - last)
        last = time.perf_counter()
    if o.truth:
        result.update(truth(torch, o, run, lambda: step(data)))
    with open("%s.%d" % (o.train, rank), "w") as f:
        json.dump(result, f)
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


# ---- what torch's own tools say

def truth(torch, o, run, step):
    found = {}
    if not o.compile:
        try:
            from torch.utils.flop_counter import FlopCounterMode

            with FlopCounterMode(display=False) as counter:
                step()
            found["flops"] = counter.get_total_flops()
        except ImportError:
            pass
    if not torch.cuda.is_available():
        return found

    def timed(count):
        took = []
        for _ in range(count):
            begin = time.perf_counter()
            step()
            took.append(time.perf_counter() - begin)
        return statistics.median(took)

    before = timed(10)
    handles = [] if o.compile else record_modules(torch, run)
    file = o.train + ".kineto.%s.json" % os.environ.get("RANK", 0)
    kinds = torch.profiler.ProfilerActivity
    step()
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profiler:
        step()  # the first one is not the usual
        with torch.profiler.record_function("measured"):
            during = timed(6)
    profiler.export_chrome_trace(file)
    for h in handles:
        h.remove()
    found.update(profiler_pct=100 * (during / before - 1), profiled_step_ms=1e3 * during, plain_step_ms=1e3 * before)
    if not o.compile:
        found["modules"] = modules_of(file, 6)
    os.remove(file)
    return found


def record_modules(torch, run):
    """Ranges of the profiler around each module."""
    handles = []
    for name, module in run.named_modules():
        open_ranges = []

        def before(_, args, name=re.sub(r"^module\.?", "", name) or "model", open_ranges=open_ranges):
            open_ranges.append(torch.profiler.record_function("MODULE " + name))
            open_ranges[-1].__enter__()

        def after(_, args, out, open_ranges=open_ranges):
            open_ranges.pop().__exit__(None, None, None)

        handles += [module.register_forward_pre_hook(before, prepend=True), module.register_forward_hook(after)]
    return handles


def modules_of(file, steps):
    """{module: [µs of its forward, of its backward]} of a step: kernels by the ranges they were launched in; backward by autograd's numbers."""
    with open(file) as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]
    measured = next(e for e in events if e["name"] == "measured" and e.get("cat") == "user_annotation")
    begin, end = measured["ts"], measured["ts"] + measured["dur"]
    device = {}  # µs by correlation
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and "nccl" not in e["name"]:
            key = e["args"].get("correlation")
            device[key] = device.get(key, 0) + e["dur"]
    threads = {}  # everything on the host, by thread
    for e in events:
        if e.get("cat") in ("user_annotation", "cpu_op", "cuda_runtime", "cuda_driver") and begin <= e["ts"] < end:
            threads.setdefault(e["tid"], []).append(e)
    found, owners = {}, {}  # owners: modules of a forward operator, by its number
    for backward in (False, True):
        for own in threads.values():
            own.sort(key=lambda e: (e["ts"], -e["dur"]))
            stack = []
            for e in own:
                while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]:
                    stack.pop()
                number = e.get("args", {}).get("Sequence number")
                away = e.get("args", {}).get("Fwd thread id", 0)
                names = {s["name"][7:] for s in stack if s["name"].startswith("MODULE ")}
                if not backward and e.get("cat") == "cpu_op" and number is not None and not away:
                    owners[number] = names  # the last one that has it made the node of the graph
                if e.get("cat") in ("cuda_runtime", "cuda_driver"):
                    us = device.get(e.get("args", {}).get("correlation"), 0)
                    if not backward:
                        for name in names:
                            found.setdefault(name, [0, 0])[0] += us / steps
                    elif not names:
                        numbers = [s["args"].get("Sequence number") for s in stack if s["name"].startswith("autograd::engine")]
                        for name in owners.get(numbers[-1], ()) if numbers else ():
                            found.setdefault(name, [0, 0])[1] += us / steps
                stack.append(e)
    return found


# ---- the checks

class Case:
    def __init__(self, name, ts, folder):
        self.name, self.ts = name, ts
        self.model, self.compiled, self.wrap, self.ranks = CASES[name]
        self.file, self.trace = os.path.join(folder, "result"), os.path.join(folder, "job.sbt")
        self.failed = 0

    def say(self, check, ok, **figures):
        self.failed += ok is False
        print(json.dumps({"case": self.name, "check": check, "ok": ok, **figures}), flush=True)

    def run(self, traced):
        own = [sys.executable, os.path.abspath(__file__), "--train", self.file, "--model", self.model]
        own += ["--compile"] * self.compiled + (["--wrap", self.wrap] if self.wrap else []) + ["--truth"] * (not traced)
        env = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8")
        if self.ranks > 1:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]), WORLD_SIZE=str(self.ranks), NCCL_SOCKET_IFNAME="lo",
                           GLOO_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", LOCAL_RANK="0")
            # Hosts with names of their own: NCCL takes one GPU only once on a host.
            script = 'for r in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$r NCCL_HOSTID=host$r "$@" & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'
            own = ["sh", "-c", script, "sh"] + own
        if traced:
            own = [self.ts, "run", "--force", "-o", self.trace, "--"] + own
        done = subprocess.run(own, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=400)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        self.err = done.stderr
        return [json.load(open("%s.%d" % (self.file, r))) for r in range(self.ranks)]

    def ask(self, sql):
        out = subprocess.run([self.ts, "query", "--format", "json", "--max-rows", "0", self.trace, sql], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, universal_newlines=True)
        if out.returncode != 0:
            raise RuntimeError(out.stderr)
        return json.loads(out.stdout)

    def check(self):
        truth, traced, again = self.run(False), self.run(True), None
        analysis = json.loads(subprocess.run([self.ts, "analyze", "--json", self.trace], stdout=subprocess.PIPE, universal_newlines=True).stdout)
        said = [line for line in self.err.splitlines() if line.startswith("tracesmith: ") and ("hook" in line or "modules" in line)]
        self.say("hooks stay on", not said, said=said)
        same = all(a["losses"] == b["losses"] for a, b in zip(truth, traced))
        differs = [i for i, (a, b) in enumerate(zip(truth[0]["losses"], traced[0]["losses"])) if a != b][:3]
        if not same:  # some kernels add in no fixed order: are they the same in two untouched processes?
            again = self.run(False)
        repeats = same or all(a["losses"] == b["losses"] for a, b in zip(truth, again))
        self.say("losses are the same bits", same if repeats else None, same=same, first_that_differ=differs, same_when_untouched=repeats,
                 torch=truth[0]["torch"])
        self.phases()
        self.flops(truth[0], analysis)
        self.modules(truth[0], analysis)
        self.cost(truth[0])

    def phases(self):
        rows = self.ask("SELECT sum(e.dur) / any_value(s.dur) AS part FROM events e JOIN steps s ON e.step = s.step AND e.rank IS NOT DISTINCT FROM s.rank "
                        "WHERE (e.name IN ('data', 'forward', 'backward', 'optimizer') OR e.name LIKE 'stall:%') AND s.step > 4 AND s.step NOT BETWEEN 19 AND 24 "
                        "GROUP BY s.step, s.rank")
        part = statistics.median(r["part"] for r in rows)
        # item() comes between the optimizer and the data: it is in no phase, but in a stall.
        self.say("phases and stalls sum to the step", abs(1 - part) <= 0.02, part=round(part, 4), steps=len(rows))

    def flops(self, truth, analysis):
        rate = analysis["rate"] or {}
        counted = rate.get("step_flops")
        expected = truth.get("flops")
        ok = None if expected is None else counted == expected
        if self.compiled:
            ok = counted is None  # not counted, as docs/torch.md says
        self.say("FLOPs are those of torch.utils.flop_counter", ok, counted=counted, expected=expected)
        self.say("rate", None, **rate)

    def modules(self, truth, analysis):
        own = {m["name"]: m for m in analysis["modules"]}
        rows = self.ask("SELECT DISTINCT step FROM events WHERE name LIKE 'module%' ORDER BY step")
        self.say("modules are on the sampled steps", [r["step"] for r in rows] == list(SAMPLED), steps=[r["step"] for r in rows], modules=len(own))
        odd = [n for n in own if n.startswith("module.") or "_orig_mod" in n]
        expected = {"model"} if self.compiled else {"blocks.1.attn.qkv"} if self.model != "resnet" else {"layers.1.0.conv2"}
        self.say("modules have their names", not odd and expected <= set(own), odd=odd)
        if self.ranks > 1:
            sets = self.ask("SELECT count(DISTINCT n) AS n FROM (SELECT rank, string_agg(DISTINCT name, ',' ORDER BY name) AS n FROM events "
                            "WHERE name LIKE 'module%' GROUP BY rank)")
            self.say("ranks have the same modules", sets[0]["n"] == 1)
        if "modules" not in truth:
            return
        both, total = [], max(f + b for f, b in truth["modules"].values())
        for name, (forward, backward) in truth["modules"].items():
            m = own.get(name)
            if m is None or forward + backward < 0.01 * total:
                continue
            for what, a, b in (("forward", forward, m["forward_us"]), ("backward", backward, m["backward_us"])):
                both.append({"module": name, "pass": what, "profiler_us": round(a, 1), "ours_us": round(b, 1)})
        off = sum(abs(x["profiler_us"] - x["ours_us"]) for x in both) / max(1e-9, sum(x["profiler_us"] for x in both))
        worst = sorted(both, key=lambda x: -abs(x["profiler_us"] - x["ours_us"]))[:4]
        ok = off <= 0.05 and len(both) > 4
        self.say("GPU time of modules is the profiler's", ok if self.ranks == 1 else None, off_pct=round(100 * off, 2), compared=len(both), worst=worst)

    def cost(self, truth):
        rows = self.ask("SELECT step, median(dur) AS dur FROM steps GROUP BY step ORDER BY step")
        took = {r["step"]: r["dur"] for r in rows}
        parts = []
        for s in SAMPLED[1:]:
            beside = [took[i] for i in range(s - 4, s + 5) if i != s and i in took]
            parts.append(took[s] / statistics.median(beside) - 1)
        sampled = 100 * statistics.median(parts)
        hooks = self.ask("SELECT median(value) AS v FROM counters WHERE name = 'tracesmith: cost of hooks %'")[0]["v"]
        average = max(0, sampled) / 64 + (hooks or 0)
        profiler = truth.get("profiler_pct")
        self.say("cost is a tenth of the profiler's", None if profiler is None or self.ranks > 1 else average <= max(profiler / 10, 1),
                 sampled_step_pct=round(sampled, 2), average_pct=round(average, 3), hooks_pct=hooks, profiler_pct=profiler,
                 step_ms=truth.get("plain_step_ms"), counted_step=round(took[3] / statistics.median(took[i] for i in (2, 5, 6, 7)), 2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="cases, by comma: " + ", ".join(CASES))
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--train")
    parser.add_argument("--model", choices=("gpt", "resnet", "bert"))
    parser.add_argument("--wrap", choices=("ddp", "fsdp2"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--truth", action="store_true")
    o = parser.parse_args()
    if o.train:
        return train(o)
    ts = os.environ.get("TS", os.path.join(HERE, "../../../build/bin/tracesmith"))
    begin, failed, longest = time.time(), 0, 0
    for name in o.only.split(",") if o.only else CASES:
        started = time.time()
        if started - begin + longest > o.seconds:
            print(json.dumps({"case": name, "check": "left out", "ok": None, "seconds": round(started - begin)}), flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="models_auto") as folder:
            case = Case(name, ts, folder)
            try:
                case.check()
            except Exception as error:
                case.say("runs", False, error="%s: %s" % (type(error).__name__, str(error)[-1500:]))
            failed += case.failed
        longest = max(longest, time.time() - started)
    sys.exit(failed)


if __name__ == "__main__":
    main()
