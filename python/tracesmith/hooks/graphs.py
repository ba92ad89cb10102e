"""What CUDA graphs are captured from: modules, operators and shapes, told to the probe while a stream is captured.

A kernel that a graph replays is launched by nobody; CUPTI tells only which node of the graph it is. While a graph is captured
the probe records each node that is made with what this file says runs then (`graph_nodes` in the trace). That happens once:
launches of the graph cost nothing.

Operators are known because each of them goes through Python while the graph is captured. What torch.compile compiled would
then run as if it were not: where a program captures that itself, only modules are told. torch.compile's own captures
(mode="reduce-overhead") run compiled code only, and are told by the operators that it calls; its fused kernels call none.
"""
import functools
import importlib
import sys
import threading

from . import probe
from .flops import has_compiled, mode_of
from .modules import title_of, unwrapped

FRAMES = 200  # looked at for the modules around a capture
SHAPES = 16  # tensors of an operator


def install(hooks):
    """Of a torch that has just been imported."""
    kind = importlib.import_module("torch.cuda.graphs").CUDAGraph
    captures, safely = Captures(hooks), hooks.safely
    begin, end = kind.capture_begin, kind.capture_end

    @functools.wraps(begin)
    def capture_begin(*arguments, **named):
        safely("graphs", captures.begins)
        try:
            return begin(*arguments, **named)
        except BaseException:
            safely("ends of graphs", captures.closes)
            safely("ends of graphs", captures.ended)
            raise

    @functools.wraps(end)
    def capture_end(*arguments, **named):
        safely("ends of graphs", captures.closes)  # what is made from here on are copies
        try:
            return end(*arguments, **named)
        finally:
            safely("ends of graphs", captures.ended)

    kind.capture_begin, kind.capture_end = capture_begin, capture_end
    instantiate = getattr(kind, "instantiate", None)  # of graphs that are kept
    if instantiate is None:
        return

    @functools.wraps(instantiate)
    def instantiated(*arguments, **named):
        safely("graphs", captures.copies)
        try:
            return instantiate(*arguments, **named)
        finally:
            safely("ends of graphs", captures.ended)

    kind.instantiate = instantiated


class Captures:
    """Of one process. One capture at a time is told."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.thread = None  # that captures
        self.open = False  # the probe records nodes
        self.mode = None
        self.put_on = False  # hooks on modules, for this capture
        self.around = []  # titles of modules that were running when it began
        self.in_backward = False
        self.refused = False

    def begins(self):
        """A graph is about to be captured."""
        functions, model = probe.functions(), getattr(self.hooks, "model", None)
        if functions is None or model is None or self.open:
            return
        if not functions.graph_capture(1):
            if not self.refused and self.torch.cuda.is_initialized():
                self.refused = True
                self.hooks.guard.note("graphs", "CUPTI does not tell of the nodes of a CUDA graph (another profiler may have "
                                      "it): its kernels are recorded without modules")
            return
        self.open, self.thread = True, threading.get_ident()
        by_compiler = self.look_around(model)
        self.put_on = model.follow(always=True)  # it happens once
        model.moved = self.move
        if by_compiler or not has_compiled():
            self.mode = mode_for(self)
            self.mode.__enter__()
        self.move()

    def closes(self):
        """All of it is captured; nodes that are made from here on are copies."""
        model = getattr(self.hooks, "model", None)
        if not self.open or threading.get_ident() != self.thread:
            return
        mode, self.mode = self.mode, None
        if mode is not None:
            mode.off = True
            if mode_of(self.torch) is mode:  # else the program has put one of its own on, and ours stays below it
                mode.__exit__(None, None, None)
        model.moved = None
        if self.put_on and model.followed:  # else a step ended, and took them off
            model.remove()
        self.put_on = False
        probe.functions().graph_names(None, 0, None, None)

    def copies(self):
        """A graph that was captured before is about to be instantiated."""
        functions = probe.functions()
        if functions is not None and not self.open and functions.graph_capture(1):
            self.open, self.thread = True, threading.get_ident()

    def ended(self):
        """The graph has been instantiated."""
        if self.open and threading.get_ident() == self.thread:
            self.open = False
            probe.functions().graph_capture(0)

    # ---- what runs

    def look_around(self, model):
        """Which modules run already: hooks do not tell. Returns whether torch.compile captures."""
        titles = {id(m): title_of(m, name) for m, name in model.named(compiled=True)}
        found, by_compiler = [], False
        frame = sys._getframe(1)
        for _ in range(FRAMES):
            if frame is None:
                break
            by_compiler |= frame.f_globals.get("__name__") == "torch._inductor.cudagraph_trees"
            if frame.f_code.co_name == "_call_impl":
                title = titles.get(id(frame.f_locals.get("self")))
                if title is not None and title not in found:
                    found.append(title)
            frame = frame.f_back
        self.around = found[::-1]
        task = getattr(self.torch._C, "_current_graph_task_id", None)
        self.in_backward = task is not None and task() != -1
        if not found and by_compiler:  # backward passes are called by nobody: the model it can be, if there is one
            compiled = [title_of(m, name) for m, name in model.named(compiled=True)
                        if unwrapped(m) is not m or m.__dict__.get("_compiled_call_impl") is not None]
            self.around = compiled if len(compiled) == 1 else []
        return by_compiler

    def where(self):
        """(modules that run on this thread as the probe wants them, whether it is their backward pass)."""
        titles, backward = self.hooks.model.path()
        if not titles:
            titles, backward = self.around, self.in_backward
        elif self.around and not backward:
            titles = [t for t in self.around if t not in titles] + titles
        return " > ".join(titles).encode("utf-8", "replace") if titles else None, backward

    def move(self):
        """Another module runs, or no operator."""
        modules, backward = self.where()
        probe.functions().graph_names(modules, backward, None, None)

    def operator(self, function, arguments, named):
        """It is about to run."""
        modules, backward = self.where()
        shapes = shapes_of(self.torch.Tensor, (*arguments, *named.values()))
        probe.functions().graph_names(modules, backward, name_of(function).encode("utf-8", "replace"), str(shapes).encode())


def mode_for(captures):
    """A dispatch mode that tells of each operator."""
    plain = (captures.torch.Tensor, captures.torch.nn.Parameter)

    class Names(importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """off: it has nothing to tell any more."""

        supports_higher_order_operators = True
        off = False

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            if any(kind not in plain and kind.__name__ == "DTensor" for kind in types):
                return NotImplemented  # comes again with the part that this rank has
            named = named or {}
            if self.off:
                return function(*arguments, **named)
            self.tell(captures.operator, function, arguments, named)
            try:
                return function(*arguments, **named)
            finally:
                self.tell(captures.move)

        def tell(self, what, *arguments):
            try:
                what(*arguments)
            except Exception as error:  # noqa: BLE001 (the program comes first)
                self.off = True
                captures.hooks.guard.failure("graphs", error)

    return Names()


def name_of(function):
    """"aten::mm"."""
    schema = getattr(function, "_schema", None)
    return schema.name if schema is not None else str(getattr(function, "__name__", function))


def shapes_of(kind, arguments):
    """Of the tensors an operator is given, also in lists."""
    shapes = []
    for value in arguments:
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, kind) and len(shapes) < SHAPES:
                shapes.append(list(part.shape))
    return shapes
