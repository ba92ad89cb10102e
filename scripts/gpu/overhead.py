"""What recording costs, against a process that was never touched: overhead.py OUT [options]

Every recorder has a process of its own, and one process has none. They all start, and then take turns: in a round each runs the same number of steps, one
process after the other, in an order that changes from round to round, while the others sleep. A cost is the ratio to the untouched process in the same
round; the table has the median, how far it may be off (95 %), and the middle half of the turns. Because two equal processes can differ for as long as they live,
the processes are started anew a few times (--sets) or are several (--copies), and "never touched, again" is a second untouched process: what it "costs" is the noise.
OUT/overhead.md has the table after every round.
"""
import argparse
import collections
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
    "again": "never touched, again",
    "cupti": "CUPTI in the process, nothing recorded",
    "kernels": "CUPTI's kernel records alone, thrown away",
    "kernels+runtime+driver": "CUPTI's kernel and launch records, thrown away",
    "kernels+callbacks": "CUPTI's kernel records, and callbacks at launches",
    "kernels+off=20": "CUPTI's kernel records, turned off again",
    "kernels+runtime+driver+off=20": "CUPTI's kernel and launch records, turned off again",
    "kernels+callbacks+off=20": "CUPTI's kernel records and callbacks at launches, turned off again",
    "kernels+detach=20": "CUPTI's kernel records, turned off and detached",
    "cupti+late=15+off=20": "CUPTI's kernel records, turned on in mid-job and off again",
    "cupti+late=15+detach=20": "CUPTI's kernel records, turned on in mid-job, off again and detached",
    "light": "`run --mode light`",
    "default": "`run` (default)",
    "watch": "`run --mode watch --window 1/50`",
    "watch-idle": "`run --mode watch`, between windows only",
    "paused": "`run`, paused",
    "nsys": "nsys profile -t cuda,nvtx",
    "torch": "torch.profiler, CUDA only",
}
DEFAULT_RECORDERS = [BASE, "again", "kernels", "light", "default", "watch", "nsys", "torch"]
OF_CUPTI = ("cupti", "kernels")  # by kernels_alone.c
STUDENT = {4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.2}  # 95 %, by how many values there are
SIZES = {"small": "launch-bound", "large": "GPU-bound"}
LARGE_RECORDERS = [BASE, "again", "kernels", "default", "watch", "nsys"]
FIGURES = [("median_ms", "median step", "ms"), ("mean_ms", "mean step", "ms"), ("cpu_ms", "CPU a step", "ms"), ("tree_cpu_ms", "CPU a step, with the recorder's processes", "ms")]
TICK_MS = 1e3 / os.sysconf("SC_CLK_TCK")


def find(name, *patterns):
    found = shutil.which(name)
    for pattern in patterns:
        found = found or next(iter(sorted(glob.glob(pattern))), None)
    return found


def find_nsys():
    return find("nsys", "/opt/nvidia/nsight-systems/*/target-linux-x64/nsys", "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
                "/usr/local/cuda*/nsight-compute*/host/target-linux-x64/nsys", "/usr/local/cuda*/nsight-systems*/target-linux-x64/nsys")


def find_cupti():
    pip = [os.path.join(p, "nvidia", "*", "lib", "libcupti.so*") for p in sys.path if p]
    return find("libcupti.so", *pip, "/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.*")


def of_session(session):
    """The statistics of the processes in a session (the fields of /proc/PID/stat after the name), by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found[int(name)] = fields
    return found


def tree_cpu_ms(session):
    """CPU time so far of all processes in a session, those that ended and were waited for included."""
    return TICK_MS * sum(int(f) for fields in of_session(session).values() for f in fields[11:15])


class Process:
    """A job under a recorder. It starts, says that it is ready, and then runs steps when it is told to."""

    def __init__(self, args, recorder, folder):
        self.recorder, self.folder, self.turns, self.why = recorder, folder, 0, None
        os.makedirs(folder)
        os.mkfifo(os.path.join(folder, "go"))
        self.go = os.fdopen(os.open(os.path.join(folder, "go"), os.O_RDWR), "w")  # read-write: does not wait for a reader that may be gone
        self.log = open(os.path.join(folder, "log"), "w")
        command = args.job.split() + ["measure", folder] + (["torch.profiler"] if recorder == "torch" else [])
        environment = dict(os.environ)
        recorder, *settings = recorder.split("@")
        environment.update(s.split("=", 1) for s in settings)
        record = [args.tracesmith, "run", "--force", "-o", os.path.join(folder, "trace.sbt")]
        if recorder in ("light", "default"):
            command = record + ["--mode", recorder, "--"] + command
        elif recorder == "watch":  # one window in a turn, and as many of the steps in it as the default of 2 in 100 has
            command = record + ["--mode", "watch", "--window", "1/50", "--"] + command
        elif recorder == "watch-idle":
            command = record + ["--mode", "watch", "--window", "1/1000000", "--"] + command
        elif recorder == "paused":
            environment["TRACESMITH_PAUSED"] = "1"
            command = record + ["--"] + command
        elif recorder == "nsys":
            command = [args.nsys, "profile", "-t", "cuda,nvtx", "--force-overwrite", "true", "-o", os.path.join(folder, "report")] + command
        elif recorder.startswith(OF_CUPTI):
            environment.update(CUDA_INJECTION64_PATH=args.kernels_alone, KERNELS_ALONE_CUPTI=args.cupti or "", KERNELS_ALONE=recorder.replace("+", ","))
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log, start_new_session=True)

    def alive(self):
        return self.process.poll() is None

    def pin(self, processors):
        """All threads of the recorder and the job; threads they make later are where their makers are."""
        for task in (t for pid in of_session(self.process.pid) for t in glob.glob(f"/proc/{pid}/task/*")):
            try:
                os.sched_setaffinity(int(os.path.basename(task)), processors)
            except OSError:
                pass  # it ended

    def ready(self):
        return os.path.exists(os.path.join(self.folder, "ready"))

    def ask(self, what, steps):
        if not self.why and self.ready() and self.alive():
            self.turns += 1
            self.begin, self.used = time.perf_counter(), tree_cpu_ms(self.process.pid)
            self.go.write(f"{what} {steps}\n")
            self.go.flush()
        elif not self.why:
            self.why = self.failed("never became ready" if self.alive() else f"ended early, code {self.process.returncode}")

    def answer(self, limit_s):
        """The figures of its turn, or None with a line in `self.why`."""
        reply = os.path.join(self.folder, f"turn-{self.turns}.json")
        while not self.why and not os.path.exists(reply):
            if not self.alive() or time.perf_counter() - self.begin > limit_s:
                self.why = self.failed(f"took longer than {limit_s} s" if self.alive() else f"ended, code {self.process.returncode}")
            time.sleep(0.005)
        if self.why:
            return None
        figures = json.load(open(reply))
        if figures and self.recorder != "torch":  # there the turn also starts and stops the profiler
            figures["tree_cpu_ms"] = (tree_cpu_ms(self.process.pid) - self.used) / figures["steps_run"]
        return figures

    def turn(self, size, steps, limit_s):
        self.ask(size, steps)
        return self.answer(limit_s)

    def failed(self, why):
        self.log.flush()
        tail = open(os.path.join(self.folder, "log"), errors="replace").read().strip().splitlines()[-3:]
        return f"{why}: {' | '.join(tail)}"

    def end(self):
        self.go.write("end 0\n")
        self.go.flush()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # nsys converts its report, which nobody reads
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        self.go.close()


def one_set(args, number, rounds, told):
    """Starts a process for each recorder and lets them take turns; adds what they measured to `rounds`."""
    processes = []
    try:
        for i, recorder in enumerate(args.recorders * args.copies):
            processes.append(Process(args, recorder, os.path.join(args.out, "runs", f"{number}-{i}-{recorder}")))
        until = time.time() + args.limit
        while any(p.alive() and not p.ready() for p in processes) and time.time() < until:
            time.sleep(0.05)
        for p in processes:
            if args.on and p.alive():
                p.pin(args.on)
        for size, count, steps in (("small", args.rounds, args.steps), ("large", args.large_rounds, args.large_steps)):
            order = [p for p in processes if size == "small" or p.recorder in LARGE_RECORDERS]
            for p in order * (count > 0):  # the first turn builds the model and warms up; nobody counts it, so all may do it at once
                p.ask(size, 5)
            for p in order * (count > 0):
                p.answer(args.limit)
            for i in range(count):
                random.Random(1000 * number + i).shuffle(order)
                rounds.append((size, collections.defaultdict(list)))
                for p in order:
                    if figures := p.turn(size, steps, args.limit):
                        rounds[-1][1][p.recorder].append(dict(figures, process=p.folder))
                told()
            for p in order * (count > 0):
                p.turn(f"drop-{size}", 0, args.limit)
        for p in processes:
            if p.why:
                print(f"set {number + 1}, {p.recorder}: {p.why}", flush=True)
    finally:
        for p in processes:
            p.end()
            if not args.keep:
                shutil.rmtree(p.folder, ignore_errors=True)


def shown(values, digits, sign=""):
    """values: of each process. The middle of the processes' medians; how far it may be off (95 %), by how the processes differ where there are four of them
    or more, else by how their turns differ; and the middle half of all turns."""
    medians, turns = [statistics.median(v) for v in values.values()], [t for v in values.values() for t in v]
    low, high = quartiles(turns)
    if len(medians) >= 4:
        error = STUDENT[min(len(medians), 12)] * statistics.stdev(medians) / len(medians) ** 0.5
        middle = statistics.mean(medians)
    else:
        error, middle = 1.57 * (high - low) / len(turns) ** 0.5, statistics.median(turns)
    return f"{middle:{sign}.{digits}f} ± {error:.{digits}f} ({low:{sign}.{digits}f} … {high:{sign}.{digits}f})"


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def table(rounds, size):
    """Markdown: for each recorder the median over rounds of the ratio to the base of the round, with the error and the middle half."""
    rounds = [found for of, found in rounds if of == size and found.get(BASE)]
    if not rounds:
        return ""
    lines = [f"| {SIZES[size]} | turns | " + " | ".join(name for _, name, _ in FIGURES) + " |", "|---" * (2 + len(FIGURES)) + "|"]
    seen = sorted({r for found in rounds for r in found}, key=lambda r: (list(RECORDERS).index(r.split("@")[0]), r))
    for recorder in seen:
        name = " ".join([RECORDERS[recorder.split("@")[0]], *recorder.split("@")[1:]])
        turns = sum(len(r.get(recorder, [])) for r in rounds)
        cells = []
        for key, _, unit in FIGURES:
            costs = collections.defaultdict(list)
            for r in rounds:
                if known := [f[key] for f in r[BASE] if f.get(key)]:
                    base = 1 if recorder == BASE else statistics.mean(known)
                    for f in r.get(recorder, []):
                        if f.get(key):
                            costs[f["process"]].append(f[key] if recorder == BASE else 100 * (f[key] / base - 1))
            cells.append("–" if not costs else f"{shown(costs, 2)} {unit}" if recorder == BASE else f"{shown(costs, 1, '+')} %")
        lines += [f"| {name} | {turns} | " + " | ".join(cells) + " |"] * (turns > 0)
    return "\n".join(lines) + "\n"


def build_kernels_alone(args):
    library = os.path.join(args.out, "kernels_alone.so")
    made = subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, os.path.join(HERE, "kernels_alone.c"), "-ldl", "-lpthread"], check=False)
    return library if made.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for the figures")
    parser.add_argument("--sets", type=int, default=3, help="how often all processes are started anew")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of the launch-bound step in a set")
    parser.add_argument("--large-rounds", type=int, default=3, help="rounds of the GPU-bound step in a set")
    parser.add_argument("--recorders", default=",".join(DEFAULT_RECORDERS), help="which, separated by commas; NAME@VARIABLE=VALUE: with that environment; all: " + " ".join(RECORDERS))
    parser.add_argument("--copies", type=int, default=1, help="processes of each recorder in a set")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--large-steps", type=int, default=20)
    parser.add_argument("--cpus", type=int, default=4, help="the processors that all processes share, because not all are equally fast; 0: all of them")
    parser.add_argument("--job", default=f"{sys.executable} {os.path.join(HERE, 'training.py')}")
    parser.add_argument("--tracesmith", default=os.path.join(HERE, "../../build/bin/tracesmith"))
    parser.add_argument("--nsys", default=find_nsys())
    parser.add_argument("--cupti", default=find_cupti(), help="libcupti for the kernel records alone")
    parser.add_argument("--limit", type=float, default=90, help="seconds a process may take to start, and a turn to end")
    parser.add_argument("--keep", action="store_true", help="keep traces and logs")
    args = parser.parse_args()
    args.recorders = [r for r in args.recorders.split(",") if r]
    unknown = {r.split("@")[0] for r in args.recorders} - set(RECORDERS)
    if unknown:
        parser.error(f"unknown recorder: {', '.join(sorted(unknown))}")
    if BASE not in args.recorders:
        args.recorders.insert(0, BASE)
    shutil.rmtree(os.path.join(args.out, "runs"), ignore_errors=True)
    os.makedirs(args.out, exist_ok=True)
    args.out = os.path.abspath(args.out)
    args.kernels_alone = build_kernels_alone(args) if any(r.startswith(OF_CUPTI) for r in args.recorders) else None
    for recorder in list(args.recorders):
        if recorder == "nsys" and not args.nsys or recorder.startswith(OF_CUPTI) and not args.kernels_alone:
            print(f"{recorder}: not here, left out", flush=True)
            args.recorders.remove(recorder)
    args.on = sorted(os.sched_getaffinity(0))[-args.cpus:] if args.cpus else None
    rounds, begin = [], time.time()

    def text():
        return "\n".join(t for t in (table(rounds, size) for size in SIZES) if t)

    def told():
        with open(os.path.join(args.out, "overhead.md"), "w") as file:
            file.write(text())
        print(f"{len(rounds)} rounds after {time.time() - begin:.0f} s: " + ", ".join(
            f"{name} " + " ".join(f"{f['mean_ms']:.2f}" for f in figures) for name, figures in sorted(rounds[-1][1].items())), flush=True)

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        for number in range(args.sets):
            one_set(args, number, rounds, told)
    except KeyboardInterrupt:
        print("stopped", flush=True)
    print("\n" + text(), flush=True)
    return 0 if text() else 1


sys.exit(main())
