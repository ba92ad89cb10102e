#!/usr/bin/env python3
"""What timing NCCL's operations by CUDA events costs, and whether it is right: scripts/gpu/event_cost.py OUT [--rounds 8]

Runs jobs of scripts/gpu/jobs, 4 ranks on one GPU, in turn: untouched; `run --mode watch` between windows; the same with `--nccl-times events`; and, in
the first round, `run --mode light`, whose kernels are CUPTI's. Prints the median step against the untouched one of the same round, how many operations
got a time, the error told, and the median duration by operation beside CUPTI's. Needs an NVIDIA GPU, python3 with torch, tracesmith (path in $TS, default
build/bin/tracesmith) with its query library.
"""
import argparse
import csv
import io
import json
import os
import random
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDERS = {"untouched": None, "launch": ["--mode", "watch", "--window", "1/1000000"],
             "events": ["--mode", "watch", "--window", "1/1000000", "--nccl-times", "events"], "light": ["--mode", "light"]}
BOUND = "CAST(nullif(regexp_extract(args, 'event_bound_ns\":([0-9]+)', 1), '') AS BIGINT)"
FIGURES = f"""SELECT op, count(*) AS operations, count(ts) AS timed, count({BOUND}) AS by_events, round(median(dur) / 1e3, 1) AS median_us,
  round(median({BOUND}) / 1e3, 1) AS error_us, round(max({BOUND}) / 1e3, 1) AS largest_error_us FROM collectives GROUP BY op ORDER BY op"""


def run(args, job, recorder, trace):
    """The median step in ms of one run; None if it failed."""
    flags = RECORDERS[recorder]
    command = [sys.executable, os.path.join(HERE, "jobs", job + ".py"), "--steps", str(args.steps), "--mark"]
    if flags:
        command = [args.tracesmith, "run", "--force", "-o", trace, "--no-telemetry"] + flags + ["--"] + command
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
        return json.loads(done.stdout.strip().splitlines()[-1])["median_step_ms"]
    except (subprocess.TimeoutExpired, ValueError, KeyError, IndexError) as e:
        print(f"{job} {recorder}: failed: {e}", flush=True)
        return None


def figures(args, trace):
    asked = subprocess.run([args.tracesmith, "query", trace, FIGURES, "--format", "csv"], capture_output=True, text=True)
    return list(csv.DictReader(io.StringIO(asked.stdout)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--jobs", default="ddp,fsdp")
    parser.add_argument("--limit", type=int, default=120, help="seconds for one run")
    parser.add_argument("--tracesmith", default=os.environ.get("TS", os.path.join(HERE, "../../build/bin/tracesmith")))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for job in args.jobs.split(","):
        costs = {"launch": [], "events": []}
        for number in range(args.rounds):
            order = ["untouched", "launch", "events"] + ["light"] * (number == 0)
            random.Random(number).shuffle(order)
            steps = {r: run(args, job, r, os.path.join(args.out, f"{job}-{r}.sbt")) for r in order}
            for recorder, all_rounds in costs.items():
                if steps["untouched"] and steps[recorder]:
                    all_rounds.append(100 * (steps[recorder] / steps["untouched"] - 1))
            print(f"{job} round {number + 1}:", {r: s for r, s in steps.items()}, flush=True)
        for recorder, values in costs.items():
            if values:
                print(f"{job} {recorder}: {statistics.median(values):+.1f} % ({min(values):+.1f} … {max(values):+.1f}), {len(values)} rounds")
        for recorder in ("events", "light"):
            for row in figures(args, os.path.join(args.out, f"{job}-{recorder}.sbt")):
                print(f"{job} {recorder}:", json.dumps(row))


if __name__ == "__main__":
    main()
