"""NCCL jobs that were started without TraceSmith: live.py TRACESMITH OUT [PART...]

Parts: attach (the probe is brought into four training ranks, which are recorded, asked by eval, and left alone again), hang (four ranks hang; NCCL's RAS and
the stacks must say who holds up the job), sample (what sampling costs a rank). Prints a JSON object for each part, with "good": true or false, and what was
measured. The ranks share one GPU and reach each other through sockets. Without a GPU they use gloo, which tries out the script only.
"""
import json
import os
import signal
import subprocess
import sys
import time

RANKS, HANG_AFTER = 4, 30
PRODUCTS, SUMS = 20, 2  # of a step


def connect(rank, port):
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    import torch
    import torch.distributed as dist
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=rank, world_size=RANKS)
        return torch, dist, "cpu"
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS, device_id=torch.device("cuda:0"))
    return torch, dist, "cuda"


def forever():
    time.sleep(1000)


def work(rank, port, what):
    """Steps until SIGTERM. Prints a line for each: its number and when it ended, on the clock of the trace."""
    torch, dist, device = connect(rank, port)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    size = 2048 if device == "cuda" else 128
    a = torch.full((size, size), 1 / size, device=device)
    sums, right, step = torch.ones(1 << 18, device=device), True, 0
    stop = torch.zeros(1, device=device)
    while True:
        b = a
        for _ in range(PRODUCTS):
            b = b @ a
        for _ in range(SUMS):
            sums.fill_(rank + 1)
            dist.all_reduce(sums)
        stop.fill_(bool(ended))
        if step % 10 == 0:
            dist.all_reduce(stop)  # all end at the same step
        if device == "cuda":
            torch.cuda.synchronize()
        right = right and sums[0].item() == RANKS * (RANKS + 1) / 2
        print(f"step {step} {time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)}", flush=True)
        if stop[0].item() > 0 and step % 10 == 0:
            break
        step += 1
        if what == "hang" and step == HANG_AFTER and rank == 2:
            forever()
    dist.destroy_process_group()
    print(f"right {right}", flush=True)


class Job:
    def __init__(self, out, port, what="train"):
        self.logs = [open(f"{out}/{what}-{r}.log", "w+") for r in range(RANKS)]
        environment = lambda r: {**os.environ, "RANK": str(r), "WORLD_SIZE": str(RANKS), "SLURM_JOB_ID": "1", "PYTHONWARNINGS": "ignore"}
        self.ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(r), str(port), what], stdout=self.logs[r], stderr=subprocess.STDOUT, env=environment(r)) for r in range(RANKS)]

    def steps(self, rank):
        """(number, ns) of the steps so far."""
        with open(self.logs[rank].name) as log:
            lines = [line.split() for line in log if line.startswith("step ") and line.endswith("\n")]
        return [(int(n), int(ns)) for _, n, ns in lines]

    def wait_for_step(self, step, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if any(r.poll() is not None for r in self.ranks):
                raise RuntimeError("a rank ended: " + open(self.logs[0].name).read()[-2000:])
            if all((self.steps(r) or [(-1, 0)])[-1][0] >= step for r in range(RANKS)):
                return
            time.sleep(0.1)
        raise RuntimeError(f"no step {step} within {seconds} s")

    def end(self):
        for r in self.ranks:
            r.send_signal(signal.SIGTERM)
        codes = []
        for r in self.ranks:
            try:
                codes.append(r.wait(60))
            except subprocess.TimeoutExpired:
                r.kill()
                codes.append("did not end")
        return codes, ["right True" in open(log.name).read() for log in self.logs]

    def kill(self):
        for r in self.ranks:
            r.kill()
            r.wait()


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def step_ms(steps, begin, end):
    inside = [ns for _, ns in steps if begin <= ns <= end]
    return round(median([(b - a) / 1e6 for a, b in zip(inside, inside[1:])]) or 0, 2)


def raw():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def asker(tracesmith, env):
    def ask(*argv, seconds=90):
        done = subprocess.run([tracesmith, *argv], capture_output=True, text=True, timeout=seconds, env=env)
        return done.returncode, done.stdout, done.stderr
    return ask


def attach(tracesmith, out):
    rings = f"{out}/rings"
    os.makedirs(rings, mode=0o700, exist_ok=True)
    os.chmod(rings, 0o700)
    ask = asker(tracesmith, {**os.environ, "TRACESMITH_DIR": rings})
    job = Job(out, 29551)
    found = {"part": "attach"}
    try:
        job.wait_for_step(30)
        before = raw()
        time.sleep(5)
        attached = raw()
        outcomes = []
        for r in job.ranks:
            rc, text, error = ask("attach", "--json", "--timeout", "20", str(r.pid))
            outcomes.append(json.loads(text) if rc == 0 else error.strip())
        found["attached"] = all(isinstance(o, dict) for o in outcomes)
        found["borrowed_ms"] = [round(o["borrowed_ns"] / 1e6, 1) for o in outcomes if isinstance(o, dict)]
        found["notes"] = outcomes[0]["notes"] if isinstance(outcomes[0], dict) else outcomes
        time.sleep(2)
        recording = raw()
        time.sleep(8)
        recorded_until = raw()
        pids = [x for r in job.ranks for x in ("--pid", str(r.pid))]
        rc, text, error = ask("record", *pids[:2], "--last", "7", "--force", "-o", f"{out}/attach.sbt")
        found["record"] = (text + error).strip().splitlines()[-3:]
        rc, text, error = ask("query", f"{out}/attach.sbt", "--format", "json", """
            SELECT count(*) FILTER (type = 'kernel' AND (name LIKE '%gemm%' OR name LIKE '%cutlass%' OR name LIKE 'nvjet%')) AS products,
                   count(*) FILTER (type = 'kernel') AS kernels, count(*) FILTER (type = 'kernel' AND name LIKE '%nccl%') AS nccl,
                   min(ts) FILTER (type = 'kernel') AS first, max(ts_end) FILTER (type = 'kernel') AS last FROM events""")
        row = json.loads(text)[0] if rc == 0 and json.loads(text) else {}
        found["kernels"] = row or error.strip()
        # A kernel that begins before its launch was called: clocks that were mapped wrongly.
        rc, text, error = ask("query", f"{out}/attach.sbt", "--format", "json", """
            SELECT count(*) AS pairs, count(*) FILTER (k.ts < l.ts) AS early, min(k.ts - l.ts) / 1e3 AS least_us, median(k.ts - l.ts) / 1e3 AS median_us
            FROM events k JOIN events l ON k.correlation = l.correlation AND k.pid = l.pid WHERE k.type = 'kernel' AND l.type IN ('runtime', 'driver')""")
        found["clock"] = json.loads(text)[0] if rc == 0 and json.loads(text) else error.strip()
        if row.get("first"):
            first, last = int(row["first"]), int(row["last"])
            steps = [n for n, ns in job.steps(0) if first <= ns <= last]
            found["steps"] = len(steps)
            found["products_a_step"] = round(row["products"] / max(1, len(steps)), 2)
            found["in_window"] = recording - 10**9 <= first and last <= raw()
        answers, took = [], []
        for r in job.ranks:
            for _ in range(5):
                begin = time.monotonic()
                rc, text, error = ask("eval", str(r.pid), "import torch; torch.distributed.get_rank(), torch.cuda.memory_allocated() > 0")
                took.append((time.monotonic() - begin) * 1000)
            answers.append(text.strip() or error.strip())
        found["eval"], found["eval_ms"] = answers, [round(median(took), 1), round(max(took), 1)]
        for r in job.ranks:
            ask("detach", str(r.pid))
        detached = raw()
        time.sleep(5)
        after = raw()
        steps = job.steps(0)
        found["step_ms"] = {"before": step_ms(steps, before, attached), "attached": step_ms(steps, recording, recorded_until), "detached": step_ms(steps, detached, after)}
        codes, right = job.end()
        found["exit_codes"], found["results_right"] = codes, right
        found["good"] = (found["attached"] and codes == [0] * RANKS and all(right) and abs(found.get("products_a_step", 0) - PRODUCTS) < 0.5 and bool(found.get("in_window"))
                         and isinstance(found["clock"], dict) and found["clock"]["early"] == 0 and answers == [f"({r}, True)" for r in range(RANKS)])
    finally:
        job.kill()
    return found


def hang(tracesmith, out):
    env = {**os.environ, "TRACESMITH_DIR": f"{out}/rings-of-the-cluster"}
    os.makedirs(env["TRACESMITH_DIR"], mode=0o700, exist_ok=True)
    os.chmod(env["TRACESMITH_DIR"], 0o700)
    ask = asker(tracesmith, env)
    start = lambda *argv: subprocess.Popen([tracesmith, "cluster", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    servers = [start("master", "--port", "50161", "--http-port", "0", "--data-dir", out + "/m")]
    servers.append(start("agent", "--master", "127.0.0.1:50161", "--port", "50162", "--node-id", "here", "--data-dir", out + "/a", "--allow-eval"))
    job = Job(out, 29552, "hang")
    found = {"part": "hang"}
    to = ("--master", "127.0.0.1:50161")
    try:
        job.wait_for_step(HANG_AFTER - 1)
        begin, verdict = time.monotonic(), {}
        ras = subprocess.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/28028; printf 'client protocol 3\\nset format json\\nstatus\\n' >&3; timeout 8 cat <&3"],
                             capture_output=True, text=True)
        with open(f"{out}/ras.json", "w") as file:
            file.write(ras.stdout + ras.stderr)
        line = next(i for i, text in enumerate(open(__file__), 1) if text.strip() == "time.sleep(1000)")
        while time.monotonic() - begin < 60:
            verdict = json.loads(ask("cluster", "hang", "--json", *to)[1] or "{}")
            if any(c["rank"] == 2 and f"live.py:{line}" in (c.get("where") or "") for c in verdict.get("culprits", [])):
                break
            time.sleep(0.2)
        found["after_s"] = round(time.monotonic() - begin, 1)
        found["verdict"] = verdict.get("verdict")
        found["culprits"] = {c["rank"]: c.get("where") for c in verdict.get("culprits", [])}
        found["hang"] = ask("cluster", "hang", *to)[1].splitlines()[:20]
        found["ps"] = ask("cluster", "ps", *to)[1].splitlines()
        took, groups = [], ""
        for _ in range(20):
            begin = time.monotonic()
            groups = ask("backtrace", "-t", "all", *to)[1]
            took.append((time.monotonic() - begin) * 1000)
        found["backtrace_all_ms"], found["groups"] = [round(median(took), 1), round(max(took), 1)], groups.split("\n\n")[0].splitlines()
        found["locals"] = ask("backtrace", "-t", "rank:2", "--locals", *to)[1].splitlines()[:40]
        rc, text, error = ask("eval", "-t", "rank:2", "[t.name for t in __import__('threading').enumerate()][:1]", *to)
        found["eval_of_a_hanging_rank"] = (text + error).strip()
        named = list(found["culprits"]) == [2] and f"live.py:{line}" in (found["culprits"][2] or "")
        found["good"] = named and any("what = 'hang'" in text for text in found["locals"]) and "MainThread" in text
    finally:
        job.kill()
        for s in servers:
            s.terminate()
        for s in servers:
            try:
                s.wait(20)
            except subprocess.TimeoutExpired:
                s.kill()
    return found


def sample(tracesmith, out):
    ask = asker(tracesmith, dict(os.environ))
    job = Job(out, 29553, "sample")
    found = {"part": "sample", "rounds": []}
    try:
        job.wait_for_step(30)
        ratios = []
        for _ in range(4):
            begin = raw()
            time.sleep(6)
            middle = raw()
            rc, text, error = ask("sample", str(job.ranks[0].pid), "-d", "6", "--rate", "100", "--json", "-o", f"{out}/rank0.svg", "--force")
            end = raw()
            steps = job.steps(0)
            alone, sampled = step_ms(steps, begin, middle), step_ms(steps, middle, end)
            ratios.append(sampled / alone if alone else None)
            found["rounds"].append([alone, sampled])
        report = json.loads(text) if rc == 0 else {"error": error}
        found["sampler"] = {k: v for k, v in report.items() if k not in ("functions", "processes")}
        found["functions"] = [f.get("name") for f in report.get("functions", [])][:8]
        found["step_is_longer_by_percent"] = round((median(ratios) - 1) * 100, 2)
        found["codes"], found["right"] = job.end()
        found["good"] = found["codes"] == [0] * RANKS and all(found["right"])
    finally:
        job.kill()
    return found


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        work(int(sys.argv[2]), sys.argv[3], sys.argv[4])
        sys.exit(0)
    tracesmith, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(out, exist_ok=True)
    all_good = True
    for part in sys.argv[3:] or ["attach", "hang", "sample"]:
        try:
            found = {"attach": attach, "hang": hang, "sample": sample}[part](tracesmith, out)
        except Exception as error:  # the other parts are worth having
            found = {"part": part, "good": False, "error": repr(error)[:3000]}
        print(json.dumps(found, indent=1), flush=True)
        all_good = all_good and found["good"]
    sys.exit(0 if all_good else 1)
