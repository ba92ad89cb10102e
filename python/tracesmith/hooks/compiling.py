"""What torch.compile did: compilations, recompilations with their reasons, and graph breaks, each with its line.

torch keeps them in lists, which are looked at when a step has ended. Nothing of torch.compile is imported by us.
"""
import os
import sys
import time

from . import probe
from .probe import now

MOST_TEXT = 160  # characters of a reason
MOST_BREAKS = 1000  # that are told


def install(hooks):
    """Of a torch that has just been imported."""
    compiling = Compiling()
    hooks.after_steps("compile", compiling.step_ended)


def place(file, line):
    return "%s:%d" % (os.path.basename(file or "?"), line or 0)


def first_line(text):
    lines = str(text or "").strip().splitlines()
    return lines[0][:MOST_TEXT] if lines else "no reason given"


class Compiling:
    """Of one process."""

    def __init__(self):
        self.last = None  # compilation that was told
        self.breaks = 0  # seen

    def step_ended(self, _):
        utils = sys.modules.get("torch._dynamo.utils")
        functions = probe.functions() if utils is not None else None
        if functions is None:
            return
        compilations = getattr(utils, "_compilation_metrics", None)
        if compilations and compilations[-1] is not self.last:
            self.tell_compilations(functions, compilations)
        breaks = getattr(utils, "graph_break_reasons", None)
        if breaks is not None and len(breaks) != self.breaks:
            self.tell_breaks(functions, breaks)

    def tell_compilations(self, functions, compilations):
        fresh = []
        for one in reversed(compilations):
            if one is self.last:
                break
            fresh.append(one)
        self.last = fresh[0]
        ahead = now() - time.time_ns()
        for one in reversed(fresh):
            file = getattr(one, "co_filename", None)
            if file is None:  # a part of one, such as a backward pass that is compiled later
                continue
            reason = getattr(one, "recompile_reason", None)
            again = reason is not None or number_of(one) > 0
            name = "%s at %s %s" % ("recompile" if again else "compile", place(file, getattr(one, "co_firstlineno", 0)),
                                    getattr(one, "co_name", "?"))
            if again:
                name += ": " + first_line(reason)
            begin, end = times_of(one, ahead)
            functions.range_at(name.encode("utf-8", "replace"), begin, end)

    def tell_breaks(self, functions, breaks):
        seen, self.breaks = self.breaks, len(breaks)
        if len(breaks) < seen:  # torch._dynamo.reset()
            seen = 0
        for one in breaks[seen:MOST_BREAKS]:
            stack = getattr(one, "user_stack", None)
            line = place(stack[-1].filename, stack[-1].lineno) if stack else "?"
            functions.mark(("graph break at %s: %s" % (line, first_line(getattr(one, "reason", None)))).encode("utf-8", "replace"))


def number_of(one):
    """How often its function had been compiled before: of "3/1" once."""
    text = str(getattr(one, "compile_id", "") or "")
    digits = text.partition("/")[2].partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def times_of(one, ahead):
    """On the probe's clock. Versions differ in what they keep."""
    start_us, length_us = getattr(one, "start_time_us", None), getattr(one, "duration_us", None)
    if start_us is None:
        start = getattr(one, "start_time", None)
        start_us = start * 1e6 if start is not None else None
    if length_us is None:
        length = getattr(one, "entire_frame_compile_time_s", None)
        length_us = length * 1e6 if length is not None else None
    end = now()
    if start_us is None or length_us is None:
        return end, end
    begin = min(end, int(start_us * 1e3) + ahead)
    return begin, min(end, begin + int(length_us * 1e3))
