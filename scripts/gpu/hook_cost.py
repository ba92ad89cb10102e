"""What the torch hooks cost a step, in one process: hook_cost.py [--blocks N] [--steps N], under `tracesmith run`.

Two processes differ by more than the hooks cost, so this one takes turns with itself: blocks of steps with torch's own functions put back, and blocks with
the hooks around them, in the order A B B A. SIZE=large makes the step GPU-bound. --without NAME leaves one group of hooks out of all blocks.
Prints one JSON object.
"""
import argparse
import gc
import json
import statistics
import sys
import time

import torch
import torch.optim.optimizer as optimizers

import training

GROUPS = {
    "optimizer": [(optimizers.Optimizer, "zero_grad")],
    "backward": [(torch.autograd, "backward")],
    "stalls": [(torch.Tensor, n) for n in ("item", "tolist", "cpu", "__bool__", "__int__", "__float__")] + [(torch.cuda, "synchronize")],
}


class Switch:
    """Takes the hooks off and puts them back."""

    def __init__(self, without):
        self.places = []  # owner, name, hooked, original
        for group, places in GROUPS.items():
            for owner, name in places:
                hooked = getattr(owner, name)
                original = getattr(hooked, "__wrapped__", None)
                if group in without:
                    setattr(owner, name, original or hooked)
                elif original is not None:
                    self.places.append((owner, name, hooked, original))
        self.before, self.after = dict(optimizers._global_optimizer_pre_hooks), dict(optimizers._global_optimizer_post_hooks)
        self.collections = list(gc.callbacks)

    def turn(self, on):
        for owner, name, hooked, original in self.places:
            setattr(owner, name, hooked if on else original)
        for kept, found in ((self.before, optimizers._global_optimizer_pre_hooks), (self.after, optimizers._global_optimizer_post_hooks)):
            found.clear()
            if on:
                found.update(kept)
        gc.callbacks[:] = self.collections if on else []


def block(job, steps):
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        job.step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=80)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--without", action="append", default=[], choices=sorted(GROUPS))
    args = parser.parse_args()
    job, switch = training.Job(), Switch(args.without)
    gc.collect()
    gc.disable()
    block(job, 100)
    times, ratios, pair = {True: [], False: []}, [], {}
    for number in range(args.blocks):
        on = number % 4 in (1, 2)
        switch.turn(on)
        found = block(job, args.steps)
        times[on] += found
        pair[on] = statistics.median(found)
        if len(pair) == 2:
            ratios.append(100 * (pair[True] / pair[False] - 1))
            pair = {}
    trained = getattr(sys, "_tracesmith_training", None)
    error = 2 * statistics.stdev(ratios) / len(ratios) ** 0.5
    print(json.dumps({
        "hooked": [f"{owner.__name__}.{name}" for owner, name, _, _ in switch.places], "off": trained.guard.spent if trained else None,
        "cost_percent": round(statistics.mean(ratios), 2), "error_percent": round(error, 2),
        "median_ms": {k: round(statistics.median(v), 3) for k, v in (("with", times[True]), ("without", times[False]))},
        "mean_ms": {k: round(statistics.mean(v), 3) for k, v in (("with", times[True]), ("without", times[False]))},
    }), flush=True)


if __name__ == "__main__":
    main()
