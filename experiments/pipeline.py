"""What moving layers gains: a pipeline of three gloo ranks of different speed, in equal parts, balanced, and in the best of all
fixed divisions. A layer takes a rank a fixed time in each forward pass, slept, so that ranks that share cores do not slow each
other down.

    PYTHONPATH=python TRACESMITH_HOME=build python3 experiments/pipeline.py [--json FILE]
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RANKS, LAYERS = 3, 9
SECONDS = (0.002, 0.003, 0.008)  # of a layer
MICRO_BATCHES = 8


def rank_main(division, steps, every):
    import torch
    import torch.distributed as dist

    from tracesmith import balance

    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=RANKS)

    class Layer(torch.nn.Linear):
        def forward(self, x):
            time.sleep(SECONDS[rank])
            return torch.tanh(super().forward(x))

    model = torch.nn.Sequential(*[Layer(64, 64) for _ in range(LAYERS)])
    pipeline = balance.Pipeline(model, torch.optim.Adam(model.parameters(), lr=1e-3), torch.nn.functional.mse_loss,
                                micro_batches=MICRO_BATCHES, division=division, every=every)
    took, loss = [], None
    for step in range(steps):
        x = torch.randn(64, 64, generator=torch.Generator().manual_seed(step))
        begin = time.perf_counter()
        loss = pipeline.step(x, torch.sin(x))
        dist.barrier()
        took.append(time.perf_counter() - begin)
    if rank == RANKS - 1:
        print(json.dumps({"took": took, "loss": loss.item(), "division": pipeline.division}))
    dist.barrier()
    dist.destroy_process_group()


def run(division, steps, every):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MEETING=os.path.join(folder, "meeting"), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        arguments = [sys.executable, __file__, "--rank", json.dumps([division, steps, every])]
        jobs = [subprocess.Popen(arguments, env=dict(env, RANK=str(r)), stdout=subprocess.PIPE, universal_newlines=True) for r in range(RANKS)]
        out = [job.communicate(timeout=600)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        sys.exit("a rank failed")
    return json.loads(out[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        return rank_main(*json.loads(args.rank))
    # All divisions, in the order of what their slowest stage should take; the best ones are measured.
    divisions = [d for d in itertools.product(range(1, LAYERS), repeat=RANKS) if sum(d) == LAYERS]
    divisions.sort(key=lambda d: max(n * s for n, s in zip(d, SECONDS)))
    modes = {"equal": ([], 10**6), "balanced": ([], 8)}
    modes.update({"fixed %s" % (d,): (list(d), 10**6) for d in divisions[:4]})
    found = {name: [] for name in modes}
    for _ in range(args.rounds):
        for name, (division, every) in modes.items():
            found[name].append(run(division, args.steps, every))
    half = args.steps // 2
    steps = {name: [statistics.median(r["took"][half:]) for r in rounds] for name, rounds in found.items()}
    best = min(statistics.median(s) for name, s in steps.items() if name.startswith("fixed"))
    equal = statistics.median(steps["equal"])
    print("mode                 step      of equal  of best  in the rounds, ms      divisions          loss")
    for name, each in steps.items():
        s = statistics.median(each)
        print("%-18s %7.1f ms   %6.2f   %6.2f  %-22s %-18s %.6f" % (
            name, 1000 * s, equal / s, best / s, ", ".join("%.0f" % (1000 * e) for e in each),
            "; ".join(sorted({", ".join(map(str, r["division"])) for r in found[name]})), found[name][0]["loss"]))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(found, out)


if __name__ == "__main__":
    main()
