"""Pauses of the host: garbage collection, checkpoints, and waiting for the GPU with the line that asked for it."""
import functools
import gc
import os
import sys
import threading

from . import imports, probe
from .probe import now

SHORTEST_NS = 50_000  # shorter ones are not recorded
_OWN = os.path.dirname(os.path.abspath(__file__))
_depth = threading.local()  # of functions that write a checkpoint


def install(hooks):
    """Of a torch that has just been imported."""
    collections(hooks)
    checkpoints(hooks, hooks.torch, ("save",))
    imports.after("torch.distributed.checkpoint", lambda module: checkpoints(hooks, module, ("save", "async_save", "save_state_dict")))
    if getattr(hooks.torch.version, "cuda", None) or getattr(hooks.torch.version, "hip", None):
        stalls(hooks)


def checkpoints(hooks, module, functions):
    """Functions that write one. Those that they call, and those in threads of their own, keep nobody waiting beside."""

    def begins():
        _depth.now = getattr(_depth, "now", 0) + 1
        return now()

    def ended(begin, _):
        _depth.now -= 1
        if _depth.now == 0 and threading.get_ident() == hooks.training.thread:
            recorded(hooks, b"checkpoint", begin)

    for name in functions:
        if hasattr(module, name):
            hooks.around(module, name, "checkpoint", begins, ended)


def recorded(hooks, name, begin):
    """A pause is over."""
    end = now()
    if hooks.training.thread is None or hooks.guard.off or end - begin < SHORTEST_NS:
        return
    functions = probe.functions()
    if functions is not None:
        functions.range_at(name, begin, end)


def collections(hooks):
    """Python's garbage collector."""
    begin = [0]

    def called(phase, info):
        if phase == "start":
            begin[0] = now()
        elif begin[0]:
            hooks.safely("gc", recorded, hooks, b"gc", begin[0])

    gc.callbacks.append(called)


def foreign(file):
    """Whether a file is ours, torch's or nobody's."""
    return file.startswith((_OWN, "<", "??")) or (os.sep + "torch" + os.sep) in file


def caller():
    """File and line of the program that asked: the innermost that is neither ours nor torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not foreign(file):
            return "%s:%d" % (os.path.basename(file), frame.f_lineno)
        frame = frame.f_back
    return "?"


def stalls(hooks):
    """Calls in which the host waits for the GPU."""
    torch = hooks.torch
    plain = (torch.Tensor, torch.nn.Parameter)  # not those that torch.compile traces with

    def on_gpu(arguments):
        return bool(arguments) and type(arguments[0]) in plain and arguments[0].is_cuda

    for name in ("item", "tolist", "cpu", "__bool__", "__int__", "__float__"):
        setattr(torch.Tensor, name, stalling(hooks, getattr(torch.Tensor, name), "Tensor." + name, on_gpu))
    torch.cuda.synchronize = stalling(hooks, torch.cuda.synchronize, "cuda.synchronize", lambda _: True)


def stalling(hooks, original, name, waits):
    """A function of torch that is noted where it lets the host wait."""

    def ended(begin):
        if now() - begin >= SHORTEST_NS:
            recorded(hooks, ("stall: %s at %s" % (name, caller())).encode("utf-8", "replace"), begin)

    @functools.wraps(original)
    def hooked(*arguments, **named):
        if hooks.guard.off or not waits(arguments):
            return original(*arguments, **named)
        begin = now()
        try:
            return original(*arguments, **named)
        finally:
            hooks.safely("stall", ended, begin)

    return hooked
