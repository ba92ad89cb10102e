"""Modules and operators of what CUDA graphs replay: a small GPT, captured, held against torch.profiler on the same model without graphs.

graph_modules.py [--only CASE,...] runs each case untouched and under `tracesmith run --graph-nodes` (path in $TS, default build/bin/tracesmith).
Prints one JSON object a check: {"case", "check", "ok", figures}; "ok" is null where a figure is only told. Exits with the number of checks that failed.

captured   forward and backward are captured with torch.cuda.graph and replayed; the optimizer is not
inference  the forward pass of a model that is not trained
kept       the same with keep_graph=True, instantiated later
compiled   torch.compile(mode="reduce-overhead"), which captures by itself
callables  torch.cuda.make_graphed_callables: the forward and the backward pass are a graph each
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
CASES = ("captured", "inference", "kept", "compiled", "callables")
UNTRAINED = ("inference", "kept")
STEPS = 30


def train(o):
    import torch

    from models import build, modules_of, record_modules

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    model, sample, batch, _ = build(torch, "gpt", True)
    model = model.to("cuda", torch.bfloat16)
    x = torch.stack([sample(i) for i in range(batch // 2)]).cuda()
    y = x.roll(-1, 1).flatten()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run = model

    def whole():
        loss = torch.nn.functional.cross_entropy(run(x).float().flatten(0, -2), y)
        loss.backward()
        return loss

    result = {"torch": torch.__version__, "losses": []}
    if o.truth:  # of the model without graphs, in a process that is not recorded
        if o.case in UNTRAINED:
            model.eval()
        handles = record_modules(torch, model)
        kinds = torch.profiler.ProfilerActivity

        def once():
            if o.case in UNTRAINED:
                with torch.no_grad():
                    run(x)
            else:
                whole()
            torch.cuda.synchronize()
            model.zero_grad(set_to_none=False)

        for _ in range(3):
            once()
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profiler:
            once()
            with torch.profiler.record_function("measured"):
                for _ in range(6):
                    once()
        profiler.export_chrome_trace(o.train + ".kineto")
        result["modules"] = modules_of(o.train + ".kineto", 6)
        for handle in handles:
            handle.remove()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    if o.case in UNTRAINED:
        model.eval()
        with torch.no_grad():
            graph = captured(torch, lambda: run(x), keep=o.case == "kept")
    elif o.case == "captured":
        model.zero_grad(set_to_none=True)
        graph = captured(torch, whole, lambda: model.zero_grad(set_to_none=True))
    elif o.case == "compiled":
        run = torch.compile(model, mode="reduce-overhead")
    else:
        model.zero_grad(set_to_none=True)
        run = torch.cuda.make_graphed_callables(model, (x,))

    result["capture_ms"] = 1e3 * (time.perf_counter() - begin)  # with three runs before; torch.compile captures later

    def step():
        if o.case in ("captured", *UNTRAINED):
            graph[0].replay()
            loss = graph[1]
        else:
            loss = whole()
        if o.case not in UNTRAINED:
            optimizer.step()
            optimizer.zero_grad(set_to_none=o.case != "captured")
        return loss.float().sum().item()

    if o.case == "captured":
        graph[0].replay()
        optimizer.zero_grad(set_to_none=False)
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        result["losses"].append(step().hex())
        times.append(time.perf_counter() - begin)
    result["step_ms"] = 1e3 * statistics.median(times[5:])
    if o.after:  # another profiler comes after us
        kinds = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profiler:
            step()
            torch.cuda.synchronize()
        result["profiled"] = sum("DeviceType.CUDA" in str(e.device_type) for e in profiler.events())
    with open(o.train, "w") as f:
        json.dump(result, f)


def captured(torch, body, before=lambda: None, keep=False):
    """(graph, what it computes)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            before()
            body()
    torch.cuda.current_stream().wait_stream(stream)
    before()
    graph = torch.cuda.CUDAGraph(keep_graph=True) if keep else torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body()
    if keep:
        graph.instantiate()
    return graph, out


class Case:
    def __init__(self, name, ts, folder):
        self.name, self.ts, self.failed = name, ts, 0
        self.file, self.trace = os.path.join(folder, "result"), os.path.join(folder, "job.sbt")

    def say(self, check, ok, **figures):
        self.failed += ok is False
        print(json.dumps({"case": self.name, "check": check, "ok": ok, **figures}), flush=True)

    def run(self, *flags, traced=None):
        own = [sys.executable, os.path.abspath(__file__), "--train", self.file, "--case", self.name, *flags]
        if traced is not None:
            own = [self.ts, "run", "--force", "-o", self.trace, *traced, "--"] + own
        done = subprocess.run(own, env=dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=280)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        with open(self.file) as f:
            return json.load(f), [line for line in done.stderr.splitlines() if line.startswith("tracesmith: ")]

    def ask(self, sql):
        out = subprocess.run([self.ts, "query", "--format", "json", "--max-rows", "0", self.trace, sql], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, universal_newlines=True)
        if out.returncode != 0:
            raise RuntimeError(out.stderr)
        return json.loads(out.stdout)

    def check(self):
        plain, _ = self.run()
        truth, _ = self.run("--truth") if self.name != "compiled" else (None, None)
        bare, _ = self.run(traced=["--graph-nodes", "--no-python"])
        traced, said = self.run("--after", traced=["--graph-nodes"])
        said = [line for line in said if any(word in line for word in ("hook", "CUPTI", "not recorded"))]
        self.say("hooks stay on", not said, said=said[:4])
        same = plain["losses"] == traced["losses"]
        repeats = same or plain["losses"] == self.run()[0]["losses"]  # some kernels add in no fixed order
        self.say("losses are the same bits", same if repeats else None, same=same, same_when_untouched=repeats, torch=plain["torch"])
        self.say("another profiler has its records after us", traced["profiled"] > 0, records=traced["profiled"])
        self.say("step", None, untouched_ms=round(plain["step_ms"], 3), without_hooks_ms=round(bare["step_ms"], 3), with_hooks_ms=round(traced["step_ms"], 3),
                 capture_ms=[round(r["capture_ms"]) for r in (plain, bare, traced)])
        # What CUPTI still held when the other profiler came may have its clock: then the last launches of each graph are not complete.
        counts = self.ask("SELECT graph, list(n ORDER BY ts) AS kernels FROM (SELECT graph, correlation, count(*) AS n, min(ts) AS ts FROM events "
                          "WHERE graph IS NOT NULL GROUP BY ALL) GROUP BY graph")
        missing = {row["graph"]: [i - len(row["kernels"]) for i, n in enumerate(row["kernels"]) if n < max(row["kernels"])] for row in counts}
        self.say("launches without all of their kernels, -1: the last", None, launches=missing)
        lost = {row["cause"]: row["count"] for row in self.ask("SELECT cause, count FROM losses")}
        self.say("records are lost to the other profiler only", set(lost) <= {"another profiler", "bad timestamp"}, losses=lost)
        self.nodes()
        self.modules(truth)

    def nodes(self):
        join = ("FROM events e ASOF LEFT JOIN graph_nodes n ON e.pid = n.pid AND e.graph_node = n.graph_node AND e.ts >= n.ts "
                "WHERE e.type IN ('kernel', 'memcpy', 'memset') AND e.graph IS NOT NULL")
        row = self.ask("SELECT count(*) AS kernels, count(n.ts) AS nodes, count(n.module) AS modules, count(n.op) AS ops, count(n.shapes) AS shapes, "
                       "count(*) FILTER (n.graph = e.graph) AS same_graph, sum(e.dur) FILTER (n.module IS NOT NULL) / sum(e.dur) AS time_with_module, "
                       "sum(e.dur) FILTER (n.op IS NOT NULL) / sum(e.dur) AS time_with_op, count(DISTINCT n.module) AS different_modules " + join)[0]
        row["rows"] = self.ask("SELECT count(*) AS n, count(DISTINCT graph) AS graphs FROM graph_nodes")[0]
        self.say("replayed kernels have a node", row["kernels"] > 0 and row["nodes"] >= 0.99 * row["kernels"], **row)
        if self.name != "compiled":
            self.say("and an operator", row["ops"] >= 0.99 * row["kernels"])
        self.say("some of them", None, rows=self.ask("SELECT n.module, n.phase, n.op, n.shapes, left(e.name, 60) AS kernel, round(avg(e.dur)) AS ns, count(*) AS n "
                                                    + join + " GROUP BY ALL ORDER BY sum(e.dur) DESC LIMIT 12"))

    def modules(self, truth):
        out = subprocess.run([self.ts, "analyze", "--json", self.trace], stdout=subprocess.PIPE, universal_newlines=True).stdout
        own = {m["name"]: m for m in json.loads(out)["modules"]}
        if truth is None:
            (graphs,) = self.ask("SELECT median(us) AS us FROM (SELECT step, sum(dur) / 1e3 AS us FROM events WHERE graph IS NOT NULL AND step > 5 GROUP BY step)")
            self.say("the compiled model has what its graphs replay", "model" in own and abs(own["model"]["total_us"] / graphs["us"] - 1) <= 0.05,
                     model_us=own.get("model", {}).get("total_us"), graphs_us=graphs["us"])
            return
        both, total = [], max(f + b for f, b in truth["modules"].values())
        for name, (forward, backward) in truth["modules"].items():
            if forward + backward < 0.01 * total:
                continue
            m = own.get(name, {"forward_us": 0, "backward_us": 0})
            for what, a, b in (("forward", forward, m["forward_us"]), ("backward", backward, m["backward_us"])):
                both.append({"module": name, "pass": what, "eager_us": round(a, 1), "replayed_us": round(b, 1)})
        off = sum(abs(x["eager_us"] - x["replayed_us"]) for x in both) / max(1e-9, sum(x["eager_us"] for x in both))
        worst = sorted(both, key=lambda x: -abs(x["eager_us"] - x["replayed_us"]))[:6]
        self.say("GPU time of modules is that without graphs", off <= 0.05 and len(both) > 4, off_pct=round(100 * off, 2), compared=len(both), worst=worst)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="cases, by comma: " + ", ".join(CASES))
    parser.add_argument("--train")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--after", action="store_true")
    o = parser.parse_args()
    if o.train:
        return train(o)
    ts, failed = os.environ.get("TS", os.path.join(HERE, "../../../build/bin/tracesmith")), 0
    for name in o.only.split(",") if o.only else CASES:
        with tempfile.TemporaryDirectory(prefix="graph_modules") as folder:
            case = Case(name, ts, folder)
            try:
                case.check()
            except Exception as error:
                case.say("runs", False, error="%s: %s" % (type(error).__name__, str(error)[-1500:]))
            failed += case.failed
    sys.exit(failed)


if __name__ == "__main__":
    main()
