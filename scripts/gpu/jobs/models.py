"""The models of models_auto.py and graph_modules.py, how they are trained, and what torch's own tools say of that.

models.py RESULT --model gpt|resnet|bert [--wrap ddp|fsdp2] [--compile] [--steps N] [--truth] trains one for a few steps and writes RESULT.<rank>. Without a GPU
the models are tiny, and what needs one is left out.
"""
import argparse
import json
import os
import re
import statistics
import time

STEPS = 46


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
    if kind == "gpt2-tiny":
        sizes, batch = ((256, 4, 4, 256, 50257, True), 64) if cuda else ((32, 2, 2, 16, 100, True), 2)
    elif kind == "bert":
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

    def step(data, run=run):
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
    loader = DataLoader(Samples(sample, o.steps * batch), batch_size=batch, num_workers=2)
    last = time.perf_counter()
    for data in loader:
        result["losses"].append(step(data).hex())
        result["times"].append(time.perf_counter() - last)
        last = time.perf_counter()
    if o.truth:
        result.update(truth(torch, o, run, lambda: step(data), lambda: step(data, model)))
    with open("%s.%d" % (o.result, rank), "w") as f:
        json.dump(result, f)
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


# ---- what torch's own tools say

def truth(torch, o, run, step, step_uncompiled):
    found = {}
    try:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            (step_uncompiled if o.compile else step)()
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
    file = o.result + ".kineto.%s.json" % os.environ.get("RANK", 0)
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--model", choices=("gpt", "resnet", "bert"))
    parser.add_argument("--wrap", choices=("ddp", "fsdp2"))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--truth", action="store_true")
    train(parser.parse_args())
