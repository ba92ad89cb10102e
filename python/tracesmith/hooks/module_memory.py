"""Memory by module: what torch's allocator has given out when the forward pass of a module begins and ends.

Asking takes about 0.2 ms, twice for each module: it is done on very few steps, in which nothing else is sampled. The
allocator's own peak is left alone, which only a reset could tell by module: a module's peak is the most that was seen when
it, or a module in it, began or ended.
"""
import threading

from . import probe
from .memory import COUNTERS, value_of
from .probe import now

MEASURED = (7, 1001, 10001, 100001)  # steps: neither those of modules.py nor those of flops.py
BETWEEN = 900  # steps from one of them to the next, at least

ALLOCATED, RESERVED, UNUSED = COUNTERS[0][1], COUNTERS[2][1], COUNTERS[3][1]


def install(hooks):
    """Of a torch that has just been imported, whose modules are hooked already."""
    if getattr(hooks.torch._C, "_cuda_memoryStats", None) is None:
        return
    measure = ModuleMemory(hooks)
    hooks.after_steps("memory of modules", measure.step_ended)
    hooks.training.on_evaluation.append(lambda: hooks.safely("memory of modules", measure.stop))


class ModuleMemory:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.measuring = False
        self.thread = None
        self.open = []  # [title, allocated when it began, the most since then]
        self.found = {}  # title: {series: bytes}
        self.cost_ns = 0  # of a step

    def step_ended(self, step):
        """The next one begins."""
        if self.measuring:
            self.tell(step)
        self.stop()
        guard = self.hooks.guard
        if step + 1 not in MEASURED or guard.off or not self.torch.cuda.is_initialized():
            return
        if self.cost_ns > guard.budget * self.hooks.training.last_ns * BETWEEN:
            return
        self.cost_ns = 0
        self.thread = threading.get_ident()
        self.measuring = self.hooks.model.follow(self)

    def stop(self):
        self.measuring, self.open, self.found = False, [], {}

    def bytes_now(self):
        begin = now()
        stats = self.torch._C._cuda_memoryStats(self.torch.cuda.current_device())
        self.cost_ns += now() - begin
        return stats

    # ---- called by the hooks of modules

    def enters(self, title):
        if threading.get_ident() == self.thread:
            allocated = value_of(self.bytes_now(), ALLOCATED)
            self.open.append([title, allocated, allocated])

    def leaves(self, title):
        if threading.get_ident() != self.thread or not any(entry[0] == title for entry in self.open):
            return
        stats = self.bytes_now()
        allocated = value_of(stats, ALLOCATED)
        while True:  # those above it ended with an exception
            own, before, most = self.open.pop()
            if own == title:
                break
        most = max(before, most, allocated)
        if self.open:
            self.open[-1][2] = max(self.open[-1][2], most)
        found = self.found.setdefault(title, {"before": before, "kept": 0, "peak": most})
        found["kept"] += allocated - before  # of all its calls in the step
        found["peak"] = max(found["peak"], most)
        found.update(after=allocated, reserved=value_of(stats, RESERVED))
        found["not in use"] = value_of(stats, UNUSED)

    def tell(self, step):
        functions = probe.functions()
        if functions is None:
            return
        at = now()
        for title, found in self.found.items():
            name = ("module memory: " + title).encode("utf-8", "replace")
            for series, value in found.items():
                if value is not None:
                    functions.counter_at(name, series.encode(), float(value), at, step)
