"""GPT, ResNet-50 and BERT-base (random data) under the torch hooks, held against torch.profiler and torch.utils.flop_counter.

models_auto.py [--only CASE,...] [--seconds S] runs each case twice: untouched, then under `tracesmith run`; a third time untouched where losses differ (path in $TS, default
build/bin/tracesmith). Prints one JSON object a check: {"case", "check", "ok", figures}; "ok" is null where a figure is only told. Exits with
the number of checks that failed. Cases that do not fit into S seconds (default 540) are told and left out.

Without a GPU the models are tiny, and what needs one is left out.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
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


class Case:
    def __init__(self, name, ts, folder):
        self.name, self.ts = name, ts
        self.model, self.compiled, self.wrap, self.ranks = CASES[name]
        self.file, self.trace = os.path.join(folder, "result"), os.path.join(folder, "job.sbt")
        self.failed = 0

    def say(self, check, ok, **figures):
        self.failed += ok is False
        print(json.dumps({"case": self.name, "check": check, "ok": ok, **figures}), flush=True)

    def run(self, traced, *more):
        own = [sys.executable, os.path.join(HERE, "models.py"), self.file, "--model", self.model]
        own += ["--compile"] * self.compiled + (["--wrap", self.wrap] if self.wrap else []) + ["--truth"] * (not traced and not more) + list(more)
        env = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", TORCHINDUCTOR_CACHE_DIR=os.path.join(os.path.dirname(self.file), "compiled"))
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
        if self.compiled:  # once for all: torch chooses kernels by how fast they are just then
            self.run(False, "--steps", "3")
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
        by_module = self.ask("SELECT count(DISTINCT name) AS n FROM counters WHERE name LIKE 'module flops: %'")[0]["n"]
        self.say("operations are known by module", by_module > (40 if self.model == "resnet" else 20), modules=by_module)
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
    o = parser.parse_args()
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
