"""Four NCCL ranks on one GPU that hang in different ways at once; is the line of each named? hanging.py [cluster] TRACESMITH [MODE]

Rank 0 waits in an all-reduce, rank 1 sleeps in Python, rank 2 sleeps in C and holds the GIL, rank 3 is stopped by a signal while it computes. Prints one JSON
object: what was named, how long it took, how long threads stood still, and whether the ranks still run. By default `backtrace` is asked; with `cluster`, the
ranks run under the probe (MODE: light, default, full) and `cluster hang` of a master with an agent is asked every 0.1 s.
"""
import json
import os
import signal
import subprocess
import sys
import time

RANKS = 4
ROUNDS = 20


def in_python():
    time.sleep(1000)


def in_c():
    import ctypes
    ctypes.PyDLL(None).sleep(1000)


def busy():
    while True:
        pass


def work(rank):
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29541")
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS, device_id=torch.device("cuda:0"))
    data = torch.ones(1 << 18, device="cuda")
    for step in range(4):
        if step == 3:
            print("hangs", flush=True)
            if rank > 0:
                [in_python, in_c, busy][rank - 1]()
        dist.all_reduce(data)
        torch.cuda.synchronize()


def line_of(text):
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.strip() == text)


def main(tracesmith):
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(r)], stdout=subprocess.PIPE, text=True, env={**os.environ, "RANK": str(r)})
             for r in range(RANKS)]
    try:
        for r in ranks:
            assert r.stdout.readline() == "hangs\n"
        time.sleep(2)
        ranks[3].send_signal(signal.SIGSTOP)
        pids = [str(r.pid) for r in ranks]
        begin = time.monotonic()
        lines = subprocess.run([tracesmith, "backtrace", *pids], capture_output=True, text=True).stdout.split("\n\n")[0].splitlines()
        all_ms = (time.monotonic() - begin) * 1000
        expected = {0: f"called from hanging.py:{line_of('torch.cuda.synchronize()')}", 1: f"in_python, hanging.py:{line_of('time.sleep(1000)')}",
                    2: f"in_c, hanging.py:{line_of('ctypes.PyDLL(None).sleep(1000)')}", 3: f"busy, hanging.py:{line_of('pass')}"}
        lines = [line.replace(f"hanging.py:{line_of('while True:')}", f"hanging.py:{line_of('pass')}") for line in lines]  # either line of the loop
        named = {r: any(line.startswith(f"Rank {r} ") and line.endswith(what) for line in lines) for r, what in expected.items()}
        seconds, stopped_us, frames, threads, missing = [], [], {}, {}, 0
        for _ in range(ROUNDS):
            for r, pid in enumerate(pids):
                begin = time.monotonic()
                out = subprocess.run([tracesmith, "backtrace", "--native", "--json", pid], capture_output=True, text=True)
                seconds.append(time.monotonic() - begin)
                stacks = json.loads(out.stdout)
                stacks = stacks.get("processes", [stacks])[0] if isinstance(stacks, dict) else stacks[0]
                stopped_us += [t["stopped_ns"] / 1000 for t in stacks["threads"] if t.get("stopped_ns") is not None]
                missing += sum(t.get("stopped_ns") is None for t in stacks["threads"])
                threads[r], frames[r] = len(stacks["threads"]), sum(len(t["frames"]) for t in stacks["threads"])
        native = subprocess.run([tracesmith, "backtrace", "--native", pids[0]], capture_output=True, text=True).stdout
        middle = lambda values: round(sorted(values)[len(values) // 2], 2)
        late = lambda values: round(sorted(values)[int(len(values) * 0.99)], 2)
        print(json.dumps({
            "named": named, "lines": lines, "four_ranks_ms": round(all_ms, 1), "native_ms": [middle([s * 1000 for s in seconds]), late([s * 1000 for s in seconds])],
            "stopped_us": [middle(stopped_us), late(stopped_us), round(max(stopped_us), 1)] if stopped_us else None, "not_stopped": missing, "threads": threads, "frames": frames,
            "cuda_frames": sum("libcuda" in line for line in native.splitlines()), "alive": [r.poll() is None for r in ranks],
        }, indent=1))
        print("\n".join(native.splitlines()[:25]), file=sys.stderr)
        return 0 if all(named.values()) else 1
    finally:
        for r in ranks:
            r.kill()


def hang(tracesmith, mode):
    import tempfile
    folder = tempfile.mkdtemp()
    rings = os.path.join(folder, "rings")
    os.mkdir(rings, 0o700)
    env = {**os.environ, "TRACESMITH_DIR": rings}
    start = lambda *argv, **more: subprocess.Popen([tracesmith, *argv], stdout=subprocess.PIPE, text=True, env={**env, **more}, start_new_session=True)
    servers = [start("cluster", "master", "--port", "50151", "--http-port", "0", "--data-dir", folder + "/m")]
    servers.append(start("cluster", "agent", "--master", "127.0.0.1:50151", "--port", "50152", "--node-id", "here", "--data-dir", folder + "/a"))
    ranks = [start("run", "--flight", "20", *(["--mode", mode] if mode else []), "--", sys.executable, __file__, "rank", str(r), RANK=str(r), WORLD_SIZE=str(RANKS), SLURM_JOB_ID="1") for r in range(RANKS)]
    ask = lambda *argv: subprocess.run([tracesmith, *argv, "--master", "127.0.0.1:50151"], capture_output=True, text=True).stdout
    try:
        for r in ranks:
            assert r.stdout.readline() == "hangs\n"
        begin = time.monotonic()
        found = {}
        while time.monotonic() - begin < 60 and not (found and all(found.values())):
            time.sleep(0.1)
            verdict = json.loads(ask("cluster", "hang", "--json") or "{}")
            where = {c["rank"]: c["where"] or "" for c in verdict.get("culprits", [])}
            found = {r: name in where.get(r, "") for r, name in {1: "in_python", 2: "in_c", 3: "busy"}.items()}
        took = time.monotonic() - begin
        every = []
        for _ in range(ROUNDS):
            begin = time.monotonic()
            all_ranks = ask("backtrace", "-t", "all")
            every.append((time.monotonic() - begin) * 1000)
        print(json.dumps({"named": found, "after_s": round(took, 2), "verdict": verdict.get("verdict"), "where": where, "lines": all_ranks.split("\n\n")[0].splitlines(),
                          "all_ranks_ms": [round(sorted(every)[ROUNDS // 2], 1), round(max(every), 1)], "ps": ask("cluster", "ps").splitlines(),
                          "alive": [r.poll() is None for r in ranks]}, indent=1))
        return 0 if found and all(found.values()) else 1
    finally:
        for p in ranks + servers:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        work(int(sys.argv[2]))
    elif sys.argv[1] == "cluster":
        sys.exit(hang(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
    else:
        sys.exit(main(sys.argv[1]))
