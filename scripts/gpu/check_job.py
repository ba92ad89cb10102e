"""Compares a trace of a job in scripts/gpu/jobs with the truth the job printed, for scripts/gpu-verify-jobs. Alone: check_job.py TRACE TRUTH.json"""
import collections
import json
import subprocess
import sys

# The causes that describe a fault rightly. A data loader that nothing marks is a host that launches late.
CAUSES = {"compute": ("uneven_work", "compute"), "data": ("data_loading", "host"), "host": ("host",), "gc": ("host", "jitter"),
          "share": ("compute", "uneven_work", "jitter", "clock"), "pair": ("slow_link",)}
SURE = 0.7
WORTH_NAMING = 1.5  # percent; a fault that costs less need not be found
HEADER = ("| case | operations | without kernel | ends > 1 ms apart | truth | said | verdict | result |\n"
          "|---|---|---|---|---|---|---|---|")


def ask(ts, *arguments):
    done = subprocess.run([ts, *map(str, arguments)], capture_output=True, text=True, timeout=90)
    if done.returncode != 0:
        raise RuntimeError(f"tracesmith {arguments[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def operations(ts, trace):
    return [json.loads(line) for line in ask(ts, "export", trace, "-o", "-", "--format", "json", "--table", "collectives").splitlines()]


def count_errors(rows, truth):
    """Sentences about (rank, function) whose number differs from what the rank called, and groups whose order differs."""
    wrong = []
    ranks = truth["ranks"]
    for rank, calls in sorted(truth["calls"].items()):
        if calls is None:
            wrong.append(f"rank {rank}: the job does not know what it called")
            continue
        mine = [r for r in rows if r["rank"] == int(rank)]
        called = collections.Counter()
        for _, function, count in calls:
            called[function] += count
        seen = collections.Counter(r["op"] for r in mine)
        exchanged = called.get("all_to_all", 0)
        if exchanged and not seen.get("all_to_all"):  # NCCL is asked for it as sends and receives
            for function in ("send", "recv"):
                per_call = ranks if seen.get(function, 0) == exchanged * ranks else ranks - 1
                called[function] += exchanged * per_call
            del called["all_to_all"]
        for function in sorted(set(called) | set(seen)):
            if called[function] != seen[function]:
                wrong.append(f"rank {rank} {function}: {called[function]} called, {seen[function]} recorded")
        # Each group's order of functions is the order on one communicator.
        orders = collections.defaultdict(list)
        for group, function, count in calls:
            if function not in ("send", "recv", "all_to_all"):
                orders[group] += [function] * count
        recorded = collections.defaultdict(list)
        # Those of one CUDA graph are called at the same moment: their numbers tell the order.
        numbers = collections.defaultdict(list)
        for r in sorted(mine, key=lambda r: (r["ts_enqueue"] or r["ts"] or 0, r["seq"] or 0)):
            if r["op"] not in ("send", "recv", "all_to_all"):
                recorded[r["comm"]].append(r["op"])
                numbers[r["comm"]].append(r["seq"])
        for comm, list_ in numbers.items():
            if truth.get("variant", "").startswith("graph") and list_ != list(range(len(list_))):
                wrong.append(f"rank {rank} {comm}: the numbers of its {len(list_)} collectives are not 0, 1, 2, … in the order of the calls")
        left = list(recorded.values())
        for group, order in orders.items():
            if order in left:
                left.remove(order)
            else:
                wrong.append(f"rank {rank} group {group}: no communicator has its {len(order)} operations in this order")
    return wrong


def end_spreads(rows):
    """Of every collective: how far apart its ranks end, in ns; None if a rank or a time is missing."""
    parts, replays = collections.defaultdict(list), collections.Counter()
    for r in sorted(rows, key=lambda r: r["ts"] or 0):
        if r["op"] in ("send", "recv"):
            continue
        number = r["seq"]
        if number is None:  # of a replay of a CUDA graph, where NCCL told of no number: the order says which it is
            replays[(r["rank"], r["comm"], r["op"])] += 1
            number = -replays[(r["rank"], r["comm"], r["op"])]
        parts[(r["comm"], r["op"], number)].append(r)
    spreads = []
    for key, group in parts.items():
        if any(r["ts"] is None and r["name"] is not None for r in group):  # in a CUDA graph whose kernels are not recorded
            continue
        whole = len(group) == (group[0]["group_size"] or len(group)) and all(r["ts_end"] is not None for r in group)
        spreads.append(max(r["ts_end"] for r in group) - min(r["ts_end"] for r in group) if whole else None)
    return spreads


def left_too_early(rows):
    """Collectives in which a rank ended before another started: their kernels are not of one operation."""
    groups = collections.defaultdict(list)
    for r in rows:
        if r["op"] in ("all_reduce", "all_gather", "reduce_scatter") and r["seq"] is not None and r["ts_end"] is not None:
            groups[(r["comm"], r["seq"])].append(r)
    return sum(1 for g in groups.values() if min(r["ts_end"] for r in g) < max(r["ts"] for r in g))


def shared_kernels(rows):
    """Operations of different calls (not enqueued within 1 ms) that have the same kernel."""
    by_kernel = collections.defaultdict(list)
    for r in rows:
        if r["ts"] is not None:
            by_kernel[(r["rank"], r["stream"], r["ts"])].append(r["ts_enqueue"] or 0)
    return sum(1 for times in by_kernel.values() if max(times) - min(times) > 1_000_000)


def verdict_of(ts, trace):
    analysis = json.loads(ask(ts, "analyze", "--json", trace))
    return analysis["verdict"], analysis


def check(ts, trace, truth, saved=None, recorded_saved=None, told=True):
    """`saved`: percent of its time that the job saves without the fault, untouched by a recorder; `recorded_saved`: the same between recordings.
    `told`: False: the job itself was not slower in every block of steps with the fault than in every one without."""
    rows = operations(ts, trace)
    wrong = count_errors(rows, truth)
    spreads = end_spreads(rows)
    hidden = sum(1 for r in rows if r["ts"] is None and r["name"] is not None)  # in a CUDA graph whose kernels are not recorded
    missing = sum(1 for r in rows if r["ts"] is None or r["dur"] is None) - hidden
    late = sum(1 for s in spreads if s is not None and s > 1_000_000)
    impossible = left_too_early(rows)
    whole = [s for s in spreads if s is not None]
    verdict, analysis = verdict_of(ts, trace)
    sure = verdict["confidence"] >= SURE
    named, cause, cost = verdict["rank"], verdict["cause"], verdict["cost_pct"]
    fault, rank = truth["fault"], truth["fault_rank"]
    # The cost is said of the whole job, whose warm-up steps have no fault; a share of the GPU is there from the start.
    faulty = 1
    if truth.get("loop_s") and analysis.get("job_us") and fault != "share":
        faulty = min(1, truth["loop_s"] * 1e6 / analysis["job_us"])
    expected = None if saved is None else saved * faulty
    problems = list(wrong[:4])
    if missing:
        problems.append(f"{missing} operations without a kernel")
    # Ranks that share a GPU take turns, so they may end apart; but nobody leaves before the last has come.
    if impossible or len(whole) != len(spreads):
        problems.append(f"{impossible} collectives that a rank left before another came, {len(spreads) - len(whole)} incomplete")
    if shared_kernels(rows):
        problems.append(f"{shared_kernels(rows)} kernels belong to several calls")
    recorded_right = not problems
    wrong_rank = False
    if fault == "none":
        verdict_right = not (verdict["kind"] in ("rank", "link") and sure)
        wrong_rank = verdict["kind"] == "rank" and sure
    elif fault == "pair":
        verdict_right = cause == "slow_link" and verdict["text"].startswith(f"the link from rank {rank} ")
        wrong_rank = verdict["kind"] == "rank" and sure and named != rank
    else:
        verdict_right = named == rank and cause in CAUSES[fault]
        if saved is not None and (saved < WORTH_NAMING or not told) and named is None:
            verdict_right = True
        wrong_rank = verdict["kind"] == "rank" and sure and named != rank
    if not verdict_right:
        problems.append(f"verdict: rank {named}, {cause}, {100 * verdict['confidence']:.0f} % sure")
    cost_right = None
    if saved is not None and saved > 3 and told:
        cost_right = cost is not None and abs(cost - expected) <= expected / 3
        if not cost_right:
            problems.append(f"cost {cost} %, truth {expected:.1f} %")
    whole.sort()
    return {"operations": len(rows), "count_errors": wrong, "without_kernel": missing, "in_graphs": hidden, "ends_apart": late, "incomplete": len(spreads) - len(whole),
            "spread_p99_us": round(whole[int(0.99 * (len(whole) - 1))] / 1e3, 1) if whole else None, "losses": analysis.get("losses", []),
            "saved_pct": None if saved is None else round(saved, 2), "expected_pct": None if expected is None else round(expected, 2), "recorded_saved_pct": None if recorded_saved is None else round(recorded_saved, 2),
            "verdict": verdict, "recorded_right": recorded_right, "verdict_right": verdict_right, "cost_right": cost_right, "wrong_rank": wrong_rank,
            "median_step_ms": truth["median_step_ms"], "problems": problems}


def check_hang(ts, trace, fault, rank):
    verdict, analysis = verdict_of(ts, trace)
    sure, named = verdict["confidence"] >= SURE, verdict["rank"]
    if fault == "hang-all":  # nobody is missing
        right = verdict["cause"] == "hang" and not (named is not None and sure)
        wrong_rank = named is not None and sure
    else:
        right = verdict["cause"] == "hang" and named == rank
        wrong_rank = named is not None and named != rank and sure
    return {"operations": None, "verdict": verdict, "verdict_right": right, "wrong_rank": wrong_rank, "losses": analysis.get("losses", []),
            "recorded_right": None, "cost_right": None, "problems": [] if right else [f"verdict: rank {named}, {verdict['cause']}"]}


def markdown(row):
    if "error" in row:
        return f"| {row['case']} | | | | | | | **failed**: {row['error']} |"

    def percent(value):
        return "–" if value is None else f"{value:.1f} %"

    v = row["verdict"]
    truth = "–" if row.get("saved_pct") is None else f"rank {row['fault_rank']}, {percent(row['saved_pct'])} ({percent(row['expected_pct'])} of the recorded job)"
    if row["case"].split("-")[-2:-1] == ["hang"]:
        truth = f"rank {row['fault_rank']}"
    said = "–" if v["kind"] in ("none", "unknown") else f"rank {v['rank']}, {percent(v['cost_pct'])}"
    counts = "–" if row["operations"] is None else f"{row['operations']:,}{'' if not row['count_errors'] else ' (wrong)'}"
    result = "right" if not row["problems"] else ("**WRONG RANK** " if row["wrong_rank"] else "**wrong**: ") + "; ".join(row["problems"])
    text = f"{v['cause'] or 'nobody'} ({100 * v['confidence']:.0f} %)"
    return f"| {row['case']} | {counts} | {row.get('without_kernel', '–')} | {row.get('ends_apart', '–')} | {truth} | {said} | {text} | {result} |"


def totals(rows):
    ran = [r for r in rows if "error" not in r]

    def share(key):
        known = [r[key] for r in ran if r.get(key) is not None]
        return f"{sum(known)} of {len(known)}"

    return (f"Total: {len(ran)} of {len(rows)} cases ran; recorded exactly {share('recorded_right')}; verdict right {share('verdict_right')}; "
            f"cost within a third {share('cost_right')}; a wrong rank at 70 % or more: {sum(bool(r.get('wrong_rank')) for r in ran)}")


if __name__ == "__main__":
    import os

    with open(sys.argv[2]) as file:
        result = check(os.environ.get("TS", "build/bin/tracesmith"), sys.argv[1], json.loads(file.read()))
    print(json.dumps(result, indent=1))
