"""What the hooks cost, and that they stay within the budget.

Each hook adds the time it took to `own_ns`. What lies around it, and caches that it leaves behind, cost as much again
(experiments/hook_cost.py measures that against processes never touched), so twice the time counts. Besides, a few steps
are run without the hooks, and compared with their neighbours. Beyond the budget all but steps, operations and memory are
turned off.
"""
import os
import statistics

from . import probe
from .imports import say

_PAIRS = 4  # steps without hooks, compared with as many before and after
_FIRST = 20  # the first of them; the next ones are four times as far
_AROUND = 2  # what a hook costs, in parts of the time that it takes by its own clock
_SURE = 3  # how many times the spread of the steps a difference must be


class Guard:
    """Of one process. `off` is true in steps without hooks, and for good beyond the budget."""

    def __init__(self):
        self.budget = _budget()
        self.off = False
        self.spent = False  # beyond the budget
        self.own_ns = 0
        self._own_before = 0
        self._steps = []  # (ns, ns of hooks) of the last steps
        self._count = 0
        self._at = _FIRST
        self._window = []  # ns of the steps around those without hooks
        self.failed = set()

    def step(self, ns):
        """A step is over."""
        if self.spent:
            return
        self._count += 1
        self._steps.append((ns, self.own_ns - self._own_before))
        self._own_before = self.own_ns
        self._compare(ns)
        if len(self._steps) < 32:
            return
        share = statistics.median(_AROUND * own / max(1, all_ns) for all_ns, own in self._steps)
        self._steps.clear()
        self._tell(share)
        if share > self.budget:
            self._turn_off(share)

    def _compare(self, ns):
        first = self._at - _PAIRS
        if self._count > first:
            self._window.append(ns)
        self.off = self._at <= self._count < self._at + _PAIRS
        if self._count < self._at + 2 * _PAIRS:
            return
        window, self._window = self._window, []
        self._at *= 4
        without = window[_PAIRS : 2 * _PAIRS]
        beside = window[:_PAIRS] + window[2 * _PAIRS :]
        base = statistics.median(without)
        share = statistics.median(beside) / max(1, base) - 1
        spread = max(statistics.pstdev(beside), statistics.pstdev(without)) / max(1, base)
        if share > self.budget and share > _SURE * spread:
            self._turn_off(share)

    def _tell(self, share):
        functions = probe.functions()
        if functions is not None:
            functions.counter(b"tracesmith: cost of hooks %", 100 * share)

    def _turn_off(self, share):
        self.spent = self.off = True
        text = "hooks cost %.2f %% of a step, more than the budget of %.2f %%: phases are not recorded from step %d on" % (
            100 * share,
            100 * self.budget,
            self._count,
        )
        self._tell(share)
        self.note("hooks off", text)

    def failure(self, hook, error):
        """A hook that fails is not called again."""
        if hook in self.failed:
            return
        self.failed.add(hook)
        text = (str(error).splitlines() or [""])[0]
        self.note("hook failed", "the hook for %s failed and is off: %s: %s" % (hook, type(error).__name__, text))

    @staticmethod
    def note(key, text):
        """One line for people, and in the trace."""
        say(text)
        functions = probe.functions()
        if functions is not None:
            functions.metadata(("tracesmith: " + key).encode(), text.encode("utf-8", "replace"))


def _budget():
    """Of `run --budget`, as a part of the step; 1 % where none was given."""
    try:
        return int(os.environ["TRACESMITH_BUDGET_PPM"]) / 1e6
    except (KeyError, ValueError):
        return 0.01
