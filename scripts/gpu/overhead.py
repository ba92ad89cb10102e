"""What recording costs, against a process that was never touched: overhead.py OUT [options]

Each measurement is a process of its own. In a round every recorder measures once, in an order that changes from round to
round. The processes of a round start together, because importing torch takes seconds; then one after the other gets its
turn, while the others sleep. Figures are ratios to the untouched process of the same round. The table is printed at the end and
when the script is told to stop, and OUT/overhead.md has it after every round.
"""
import argparse
import glob
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = "untouched"
RECORDERS = {
    BASE: "never touched",
    "light": "`run --mode light`",
    "default": "`run` (default)",
    "watch": "`run --mode watch`",
    "paused": "`run`, paused",
    "nsys": "nsys profile -t cuda,nvtx",
    "torch": "torch.profiler, CUDA only",
}
SIZES = {"small": "launch-bound", "large": "GPU-bound"}
LARGE_RECORDERS = [BASE, "default", "watch", "nsys"]
FIGURES = [("median_ms", "median step", "ms"), ("mean_ms", "mean step", "ms"), ("cpu_ms", "CPU a step", "ms"), ("wall_s", "wall, whole", "s"), ("used_s", "CPU, whole", "s")]
WHOLE = ("wall_s", "used_s")  # of the whole command, with all sizes: compared where both measured the same


def find_nsys():
    found = shutil.which("nsys")
    for pattern in ("/opt/nvidia/nsight-systems/*/target-linux-x64/nsys", "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
                    "/usr/local/cuda*/nsight-compute*/host/target-linux-x64/nsys", "/usr/local/cuda*/nsight-systems*/target-linux-x64/nsys"):
        found = found or next(iter(sorted(glob.glob(pattern))), None)
    return found


class Run:
    """One process of a round: it starts, says that it is ready, and waits for its turn."""

    def __init__(self, args, recorder, sizes, folder):
        self.recorder, self.folder = recorder, folder
        os.makedirs(folder)
        self.go = os.path.join(folder, "go")
        os.mkfifo(self.go)
        self.log = open(os.path.join(folder, "log"), "w")
        steps = {"small": args.steps, "large": args.large_steps}
        self.plan = ",".join(f"{size}={steps[size]}" for size in sizes)
        command = args.job.split() + ["measure", self.plan, folder] + (["torch.profiler"] if recorder == "torch" else [])
        environment = dict(os.environ)
        record = [args.tracesmith, "run", "-o", os.path.join(folder, "trace.sbt")]
        if recorder in ("light", "default"):
            command = record + ["--mode", recorder, "--"] + command
        elif recorder == "watch":  # one window among the steps, and as many of them in it as the default of 2 in 100 has
            command = record + ["--mode", "watch", "--window", "1/50", "--"] + command
        elif recorder == "paused":
            environment["TRACESMITH_PAUSED"] = "1"
            command = record + ["--"] + command
        elif recorder == "nsys":
            command = [args.nsys, "profile", "-t", "cuda,nvtx", "--force-overwrite", "true", "-o", os.path.join(folder, "report")] + command
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)

    def alive(self):
        return self.process.poll() is None

    def ready(self):
        return os.path.exists(os.path.join(self.folder, "ready"))

    def turn(self, limit_s):
        """Lets it measure; returns its figures by size, or None with a line in `self.why`."""
        if not self.alive():
            return self.failed(f"ended early, code {self.process.returncode}")
        begin = time.perf_counter()
        with open(os.open(self.go, os.O_RDWR), "w") as go:  # read-write: does not wait for a reader that may be gone
            go.write("go\n")
            go.flush()
            return self.finish(begin, limit_s)

    def finish(self, begin, limit_s):
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.perf_counter() - begin > limit_s:
                self.end()
                return self.failed(f"took longer than {limit_s} s")
            time.sleep(0.005)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begin
        try:
            figures = json.load(open(os.path.join(self.folder, "figures.json")))
        except (OSError, ValueError):
            return self.failed(f"ended without figures, code {self.process.returncode}")
        # Of the whole command, all sizes together: the recorder itself, its children, and the import of torch.
        for figure in figures.values():
            figure.update(plan=self.plan, wall_s=wall, used_s=usage.ru_utime + usage.ru_stime)
        return figures

    def failed(self, why):
        if not self.log.closed:
            self.log.flush()
        tail = open(os.path.join(self.folder, "log"), errors="replace").read().strip().splitlines()[-3:]
        self.why = f"{why}: {' | '.join(tail)}"
        return None

    def end(self):
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def one_round(args, number, recorders, large):
    """Figures by recorder and size. Recorders that failed are missing."""
    order = list(recorders)
    random.Random(number).shuffle(order)
    runs, figures = [], {}
    try:
        for recorder in order:
            sizes = ["small"] * (not args.only_large) + ["large"] * (large and recorder in LARGE_RECORDERS)
            if sizes:
                runs.append(Run(args, recorder, sizes, os.path.join(args.out, "runs", f"{number}-{recorder}")))
        until = time.time() + args.limit
        while any(r.alive() and not r.ready() for r in runs) and time.time() < until:
            time.sleep(0.05)
        for run in runs:
            if not run.alive() or run.ready():
                found = run.turn(args.limit)
            else:
                found = run.failed("never became ready")
            if found:
                figures[run.recorder] = found
                print(f"round {number + 1}, {run.recorder}: " + "; ".join(
                    f"{SIZES[size]} " + ", ".join(f"{name} {f[key]:.2f} {unit}" for key, name, unit in FIGURES if key in f) for size, f in found.items()), flush=True)
            else:
                print(f"round {number + 1}, {run.recorder}: {run.why}", flush=True)
    finally:
        for run in runs:
            run.end()
            if not args.keep:
                shutil.rmtree(run.folder, ignore_errors=True)
    return figures


def table(rounds, size):
    """Markdown: for each recorder the median over rounds of the ratio to the base of the round, with the smallest and the largest."""
    bases = [r[BASE][size] for r in rounds if size in r.get(BASE, {})]
    if not bases:
        return ""
    # The whole is told once, with the first size.
    figures = [f for f in FIGURES if f[0] not in WHOLE or size == "small" or not any("small" in r.get(BASE, {}) for r in rounds)]
    lines = [f"| {SIZES[size]} | rounds | " + " | ".join(name for _, name, _ in figures) + " |", "|---" * (2 + len(figures)) + "|"]
    for recorder, name in RECORDERS.items():
        pairs = [(r[recorder][size], r[BASE][size]) for r in rounds if size in r.get(recorder, {}) and size in r.get(BASE, {})]
        if not pairs:
            continue
        cells = []
        for key, _, unit in figures:
            if recorder == BASE:
                values = sorted(base[key] for _, base in pairs)
                cells.append(f"{statistics.median(values):.2f} {unit} ({values[0]:.2f} … {values[-1]:.2f})")
            else:
                same = [p for p in pairs if key not in WHOLE or p[0]["plan"] == p[1]["plan"]]
                costs = sorted(100 * (mine[key] / base[key] - 1) for mine, base in same if mine.get(key) and base.get(key))
                cells.append(f"{statistics.median(costs):+.1f} % ({costs[0]:+.1f} … {costs[-1]:+.1f})" if costs else "–")
        lines.append(f"| {name} | {len(pairs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for the figures")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--large-rounds", type=int, default=4, help="rounds that also measure the GPU-bound step")
    parser.add_argument("--only-large", action="store_true", help="leave the launch-bound step out")
    parser.add_argument("--recorders", default=",".join(RECORDERS), help="which, separated by commas")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--large-steps", type=int, default=25)
    parser.add_argument("--job", default=f"{sys.executable} {os.path.join(HERE, 'training.py')}")
    parser.add_argument("--tracesmith", default=os.path.join(HERE, "../../build/bin/tracesmith"))
    parser.add_argument("--nsys", default=find_nsys())
    parser.add_argument("--limit", type=float, default=90, help="seconds a process may take")
    parser.add_argument("--keep", action="store_true", help="keep traces and logs")
    args = parser.parse_args()
    recorders = [r for r in args.recorders.split(",") if r]
    unknown = set(recorders) - set(RECORDERS)
    if unknown:
        parser.error(f"unknown recorder: {', '.join(sorted(unknown))}")
    if BASE not in recorders:
        recorders.insert(0, BASE)
    if "nsys" in recorders and not args.nsys:
        print("nsys was not found: left out", flush=True)
        recorders.remove("nsys")
    shutil.rmtree(os.path.join(args.out, "runs"), ignore_errors=True)
    os.makedirs(args.out, exist_ok=True)
    rounds = []

    def text():
        return "\n".join(t for t in (table(rounds, size) for size in SIZES) if t)

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    begin = time.time()
    try:
        for number in range(max(args.rounds, args.large_rounds)):
            rounds.append(one_round(args, number, recorders, number < args.large_rounds))
            with open(os.path.join(args.out, "overhead.md"), "w") as file:
                file.write(text())
            print(f"{number + 1} of {max(args.rounds, args.large_rounds)} rounds after {time.time() - begin:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    print("\n" + text(), flush=True)
    return 0 if text() else 1


sys.exit(main())
