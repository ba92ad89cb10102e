"""What the jobs in this folder share: ranks on one GPU, faults, and the truth about a run.

A job is a Python file with one or more variants. `python3 ddp.py --variant ddp --fault data --rank 1` starts 4 ranks on GPU 0. Each has its own
NCCL_HOSTID, so NCCL takes them for 4 hosts and uses sockets. The last line of output is a JSON object: the operations each rank called (in order, by
process group), the median step, the seconds of the loop after warm-up, and the fault. Warm-up steps have no fault.

--alternate runs blocks of steps without and with the fault in turn, in the same processes: their ratio is what the fault costs.
--cpu runs a job with gloo on the CPU, to try it where there is no GPU.

Faults: none; compute (more matrix products on the rank), data (it sleeps before each step), host (its thread is busy inside forward), gc (it stops
for 150 ms every 5th step), share (20 % of the GPU; needs MPS, not with --alternate), pair (what it sends is slow; needs slow_link.so preloaded),
hang-python (it sleeps for ever), hang-c (it stops itself), hang-mismatch (it calls another collective), hang-all (its network is dead while every
rank is in the same collective; needs slow_link.so). A hang begins in step 12 and creates the file named by $STOPPED.
"""
import argparse
import ctypes
import glob
import gzip
import json
import multiprocessing
import os
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
import traceback

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "50000")  # torch's own list of the collectives it called
os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "50000")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")

import torch
import torch.distributed as dist
import torch.nn as nn

WARM_UP = 6  # steps without a fault; the last three give the step time that faults are scaled to
HANG_STEP = 12
LAST = 63  # of the shared numbers; the first ones belong to the ranks
BLOCK = 10  # steps in a block of --alternate
HANGS = ("hang-python", "hang-c", "hang-mismatch", "hang-all")
FAULTS = ("none", "compute", "data", "host", "gc", "share", "pair") + HANGS


def busy(seconds):
    """Holds the thread and Python's lock."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def function_of(name):
    """What NCCL calls for an operation in torch's list: "nccl:_all_gather_base" is an all_gather. None: not an operation itself."""
    name = name.split(":")[-1]
    for part, function in (("all_gather", "all_gather"), ("allgather", "all_gather"), ("reduce_scatter", "reduce_scatter"), ("all_reduce", "all_reduce"),
                           ("allreduce", "all_reduce"), ("all_to_all", "all_to_all"), ("alltoall", "all_to_all"), ("broadcast", "broadcast"),
                           ("send", "send"), ("recv", "recv"), ("scatter", "scatter"), ("gather", "gather"), ("reduce", "reduce")):
        if part in name:
            return function
    return None


class Job:
    """One rank of a job."""

    def __init__(self, args, rank, shared, barrier):
        self.args, self.rank, self.ranks = args, rank, args.ranks
        self.shared, self.barrier = shared, barrier
        self.cuda = not args.cpu
        self.device = torch.device("cuda:0" if self.cuda else "cpu")
        self.parts = 1  # how often in_forward() is called in a step
        self.faulty = False  # the fault is on now, on this rank
        self.amount = args.amount  # ms a step, products at a time, or MB/s; None: by the step time
        self.product_ms, self.matrix = None, None
        self.calls = []  # [group, function, how many]: what the job itself called; empty: torch's list says it

    # What a variant calls.
    def called(self, function, group="default", count=1):
        self.calls.append((group, function, count))

    def in_forward(self):
        """A variant calls this inside its forward pass, `parts` times in a step."""
        if not self.faulty:
            return
        if self.args.fault == "host":
            busy(self.amount / 1e3 / self.parts)
        elif self.args.fault == "compute":
            for _ in range(int(self.amount)):
                self.matrix = torch.tanh(self.matrix @ self.matrix)

    def random(self, *shape, **kw):
        return torch.randn(*shape, device=self.device, **kw)

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    # The run itself.
    def meet(self):
        self.sync()
        self.barrier.wait(120)

    def before_step(self, number):
        """Faults outside the forward pass. True: this rank does not run the step."""
        fault = self.args.fault
        if not self.faulty:
            return False
        if fault == "data":
            time.sleep(self.amount / 1e3)
        elif fault == "gc" and number % 5 == 4:
            busy(self.amount / 1e3)
        elif fault in HANGS and number == HANG_STEP:
            self.sync()
            if os.environ.get("STOPPED"):
                open(os.environ["STOPPED"], "w").close()
            if fault == "hang-python":
                time.sleep(1e6)
            elif fault == "hang-c":
                os.kill(os.getpid(), signal.SIGSTOP)
            elif fault == "hang-all":
                self.slow_link(0)
            elif fault == "hang-mismatch":
                part = self.random(1 << 20)
                whole = [torch.empty_like(part) for _ in range(self.ranks)]
                dist.all_gather(whole, part)
                self.sync()
                return True
        return False

    def slow_link(self, mb_per_s):
        function = ctypes.CDLL(None).slow_link
        function.argtypes = [ctypes.c_double]
        function(mb_per_s)

    def measure_product(self):
        """How long one matrix product takes while no other rank computes."""
        self.matrix = self.random(*[1536 if self.cuda else 96] * 2) * 0.01
        for timed in (False, True):
            self.sync()
            begin = time.perf_counter()
            for _ in range(10):
                self.matrix = torch.tanh(self.matrix @ self.matrix)
            self.sync()
            self.product_ms = (time.perf_counter() - begin) * 100

    def switch(self, on):
        self.faulty = on and self.args.fault != "none" and self.rank == self.args.rank
        if self.args.fault == "pair" and self.rank == self.args.rank:
            self.slow_link(self.amount if on else -1)

    def steps(self, variant, count, first):
        """Runs steps; their seconds on this rank, and those of the whole."""
        took = []
        self.meet()
        begin = last = time.perf_counter()
        for number in range(first, first + count):
            if self.args.mark and self.cuda:
                torch.cuda.nvtx.range_push(f"step {number}")
            if not self.before_step(number - first):
                loss = variant.step()
                if loss is not None:
                    float(loss)  # as a script that prints its loss: waits for the GPU
            self.sync()
            if self.args.mark and self.cuda:
                torch.cuda.nvtx.range_pop()
            now = time.perf_counter()
            took.append(now - last)
            last = now
        self.meet()
        return took, time.perf_counter() - begin

    def run(self, variant):
        if self.rank == self.args.rank and self.args.fault == "compute":
            self.measure_product()
        warm, _ = self.steps(variant, WARM_UP, 0)
        step_ms = statistics.median(warm[-3:]) * 1e3
        self.shared[self.rank] = step_ms
        self.meet()
        step_ms = max(self.shared[: self.ranks])
        if self.amount is None and self.args.fault == "compute":
            if self.product_ms:
                self.shared[LAST] = max(1, round(0.3 * step_ms / self.product_ms / self.parts))
            self.meet()
            self.amount = self.shared[LAST]
        elif self.amount is None:
            self.amount = {"data": 0.25 * step_ms, "host": 0.25 * step_ms, "gc": min(150, 1.5 * step_ms), "pair": 250}.get(self.args.fault, 0)
        truth = {"rank": self.rank, "warm_step_ms": round(step_ms, 3)}
        if self.args.alternate:
            seconds = {False: [], True: []}
            for block in range(4):
                on = block % 2 == 1
                self.switch(on)
                _, whole = self.steps(variant, BLOCK, WARM_UP + block * BLOCK)
                seconds[on].append(whole)
            truth.update(clean_s=seconds[False], fault_s=seconds[True])
        else:
            self.switch(True)
            truth["loop_start_ns"] = time.monotonic_ns()
            took, whole = self.steps(variant, self.args.steps, WARM_UP)
            truth["loop_end_ns"] = time.monotonic_ns()
            truth.update(loop_s=round(whole, 4), median_step_ms=round(statistics.median(took) * 1e3, 3))
        self.switch(False)
        truth["amount"] = self.amount
        truth["calls"] = self.sequence()
        return truth

    def sequence(self):
        """[[group, function, how often in a row], ...] in order: what the job counted itself, else what torch lists. None: nobody knows."""
        calls = self.calls
        if not calls and self.cuda:
            c10d = torch._C._distributed_c10d
            dump = getattr(c10d, "_dump_nccl_trace_json", None) or getattr(c10d, "_dump_fr_trace_json", None)
            if dump is None:
                return None
            entries = json.loads(dump()).get("entries", [])
            for entry in sorted(entries, key=lambda e: e.get("id", e.get("record_id", 0))):
                name = entry.get("profiling_name", "")
                function = function_of(name)
                group = entry.get("process_group") or entry.get("pg_id")
                group = str(group[0] if isinstance(group, list) else group)
                if function:
                    calls.append((group, function, len(entry.get("input_sizes") or [0]) if "coalesced" in name else 1))
        runs = []
        for group, function, count in calls:
            if runs and runs[-1][:2] == [group, function]:
                runs[-1][2] += count
            else:
                runs.append([group, function, count])
        return runs or None


class Hook(nn.Module):
    """A place inside a model where faults happen."""

    def __init__(self, job):
        super().__init__()
        self.job = [job]  # in a list: nothing for torch to look into

    def forward(self, x):
        self.job[0].in_forward()
        return x


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


def work(args, variant, rank, port, shared, barrier, folder):
    lazy = getattr(variant, "lazy", False)  # communicators are made at the first operation
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      RANK=str(rank), WORLD_SIZE=str(args.ranks), LOCAL_RANK=str(rank))
    if args.fault == "share":
        os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "20" if rank == args.rank else "100"
    torch.manual_seed(1)
    job = Job(args, rank, shared, barrier)
    if job.cuda:
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
        kw = {} if lazy else {"device_id": torch.device("cuda:0")}
        dist.init_process_group("nccl", rank=rank, world_size=args.ranks, **kw)
    else:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    truth = job.run(variant(job))
    with open(f"{folder}/{rank}.json", "w") as out:
        json.dump(truth, out)
    job.meet()
    dist.destroy_process_group()
    if args.keep_rings:  # what the probe wrote, for tests that replay it
        time.sleep(1)  # it hands over its last records
        for ring in glob.glob(f"{os.environ['TRACESMITH_DIR']}/{os.getpid()}.*.ring"):
            with open(ring, "rb") as source, gzip.open(f"{args.keep_rings}/{rank}.ring.gz", "wb", 6) as out:
                shutil.copyfileobj(source, out)


def child(*what):
    """Runs one rank in this process, which ends here."""
    code = 1
    try:
        work(*what)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)  # not through destructors that wait for the other ranks
    sys.exit(0)


def main(variants):
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=list(variants), default=next(iter(variants)))
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--rank", type=int, default=0, help="rank with the fault")
    parser.add_argument("--amount", type=float, help="ms (compute: products at a time, pair: MB/s); default: by the step time")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--mark", action="store_true", help="mark steps with NVTX")
    parser.add_argument("--alternate", action="store_true", help="blocks without and with the fault, in turn")
    parser.add_argument("--keep-rings", metavar="FOLDER", help="copy the probe's rings there at the end (under tracesmith run --flight)")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # torch is imported once; CUDA is not initialized before the ranks are forked.
    # Each rank ends as a program does, with its exit handlers: the probe hands over what it has there.
    context = multiprocessing.get_context("fork")
    shared, barrier = context.Array("d", LAST + 1, lock=False), context.Barrier(args.ranks)
    folder = tempfile.mkdtemp()
    running = set()
    for rank in range(args.ranks):
        pid = os.fork()
        if pid == 0:
            child(args, variants[args.variant], rank, port, shared, barrier, folder)
        running.add(pid)

    def stop(*_):
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    while running:
        pid, status = os.waitpid(-1, 0)
        running.discard(pid)
        if status != 0:
            time.sleep(1)  # the others may have something to say
            stop()
    truth = [json.load(open(f"{folder}/{r}.json")) for r in range(args.ranks)]
    shutil.rmtree(folder)
    result = {"variant": args.variant, "fault": args.fault, "fault_rank": None if args.fault == "none" else args.rank, "ranks": args.ranks,
              "marked": args.mark, "amount": truth[0]["amount"], "warm_step_ms": truth[0]["warm_step_ms"]}
    if args.alternate:
        for key in ("clean_s", "fault_s"):
            result[key] = [round(max(block), 4) for block in zip(*(t[key] for t in truth))]
        clean, faulty = sum(result["clean_s"]), sum(result["fault_s"])
        result.update(slower_pct=round(100 * (faulty / clean - 1), 2), saved_pct=round(100 * (1 - clean / faulty), 2))
    else:
        result.update(steps=args.steps, loop_s=max(t["loop_s"] for t in truth), median_step_ms=truth[0]["median_step_ms"],
                      loop_start_ns=min(t["loop_start_ns"] for t in truth), loop_end_ns=max(t["loop_end_ns"] for t in truth))
        result["calls"] = {t["rank"]: t["calls"] for t in truth}
    print(json.dumps(result), flush=True)
