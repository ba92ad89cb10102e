"""From what torch is asked to do to steps and phases.

A step ends with its optimizer and the next one begins there. Data is waiting for a DataLoader; forward is what lies
between that (or the last phase) and backward. Where a program evaluates its model in between, that is no step.
"""
import threading

from . import probe
from .probe import now


class Training:
    """Of one process: one thread trains. Times are in ns; the hooks call in the order things happen."""

    def __init__(self, guard):
        self.guard = guard
        self.thread = None  # that trains: it called backward first
        self.marked = False  # the program marks its own steps
        self.step = -1
        self.begun = 0  # when the step began; 0: none is open
        self.next_begin = 0  # where the next one begins if none is open: behind the last optimizer
        self.edge = 0  # where the last phase ended
        self.before_clearing = []  # what lies between a phase and zero_grad() after it: forward, if backward comes next
        self.backward_since = False  # in this step
        self.in_backward = False
        self.fetches = []  # since the last backward: (thread, begin, end)
        self.evaluating = 0  # since when; 0: not
        self.holes = []  # in which this thread waited for other ranks, since the last phase ended
        self.optimizers = {}  # id: [steps, when it last did], in the order of their first steps
        self.optimizer_steps = 0  # of all
        self.in_optimizer = False
        self.stepped_in_backward = False
        self.metadata = []  # told when the first step begins
        self.on_step = []  # functions to call when a step has ended
        self.on_evaluation = []  # functions to call when the program begins to evaluate
        self.last_ns = 0  # how long the last step took
        self.reductions = []  # what reduces gradients: begins(begin), and waits(begin, end) of a backward

    # ---- phases

    def emit(self, name, begin, end, holes=()):
        """A phase, without what it waited for other ranks."""
        functions = probe.found or probe.functions()
        if functions is None or self.guard.off:
            return
        for from_ns, to_ns in holes:
            if from_ns > begin:
                functions.range_at(name, begin, min(from_ns, end))
            begin = max(begin, to_ns)
        if end > begin:
            functions.range_at(name, begin, end)

    def take_holes(self):
        holes = self.holes
        if holes:
            self.holes = []
        return holes

    def hole(self, begin, end):
        """This thread waited for other ranks."""
        if threading.get_ident() == self.thread and len(self.holes) < 1000:
            self.holes.append((begin, end))

    def fetched(self, begin, end, batch):
        """The program waited for its data. `batch`: it got one."""
        thread = threading.get_ident()
        if self.thread is not None and thread != self.thread:
            return
        if batch:
            self.fetches.append((thread, begin, end))
        if len(self.fetches) > 64:
            del self.fetches[: len(self.fetches) - 64]
        if self.thread is None:
            return
        self.emit(b"data", begin, end)
        self.holes, self.before_clearing = [], []
        self.edge = end

    def evaluates(self):
        """The program has set a model to evaluation."""
        if self.thread is None or threading.get_ident() != self.thread or self.evaluating or self.backward_since:
            return
        self.evaluating = now()
        self.fetches = []
        if self.begun:  # it had only just begun: what comes now is none
            self.found(-1, 0)
            self.step -= 1
            self.begun = 0
        for function in self.on_evaluation:
            function()

    def backward_begins(self):
        """Returns when, or None if this is inside of another or not the thread that trains."""
        if self.in_backward:
            return None
        thread = threading.get_ident()
        if self.thread is None:
            self.start(thread)
        elif thread != self.thread:
            return None
        begin = now()
        if self.evaluating:
            self.end_evaluation()
        if not self.begun:
            self.begin_step(self.next_begin or self.edge or begin)
        if self.edge:
            holes = self.take_holes()
            for gap in self.before_clearing:
                self.emit(b"forward", gap[0], gap[1], holes)
            self.emit(b"forward", self.edge, begin, holes)
        self.before_clearing = []
        self.in_backward = self.backward_since = True
        self.fetches = []
        for reduction in list(self.reductions):
            reduction.begins(begin)
        return begin

    def start(self, thread):
        """The first backward: now it is known who trains."""
        self.thread = thread
        functions = probe.functions()
        if functions is not None:
            for key, value in self.metadata:
                functions.metadata(key.encode("utf-8", "replace"), value.encode("utf-8", "replace"))
        own = [f for f in self.fetches if f[0] == thread]
        if own:
            self.begin_step(own[-1][1])
            self.emit(b"data", own[-1][1], own[-1][2])
            self.edge = own[-1][2]

    def end_evaluation(self):
        since, self.evaluating = self.evaluating, 0
        if len(self.fetches) < 2:  # a part of the model that is not trained, or a batch or two
            return
        last = self.fetches[-1]
        functions = probe.functions()
        if functions is not None:
            functions.range_at(b"evaluation", since, last[1])
        self.next_begin = last[1]
        self.edge = last[2]

    def backward_ended(self, begin, _=None):
        self.in_backward = False
        end = now()
        holes = self.take_holes()
        for reduction in self.reductions:
            holes = holes + reduction.waits(begin, end, self.step)
        self.emit(b"backward", begin, end, sorted(holes) if holes else ())
        self.edge = end
        if self.stepped_in_backward:
            self.stepped_in_backward = False
            self.end_step(end)

    # ---- steps

    def begin_step(self, begin):
        self.step += 1
        self.begun = begin
        self.found(self.step, begin)

    def found(self, step, begin):
        functions = probe.found or probe.functions()
        if functions is not None:
            self.marked = not functions.found_step(step, begin)

    def optimizer_begins(self):
        if self.in_optimizer or self.thread is None or threading.get_ident() != self.thread:
            return None
        self.in_optimizer = True
        return now()

    def optimizer_ended(self, optimizer, begin):
        """`begin`: None if it is inside of another, or another thread runs it."""
        if begin is None:
            return
        end = now()
        self.in_optimizer = False
        if self.in_backward:  # one optimizer for each parameter: the step ends with backward
            self.stepped_in_backward = True
            return
        self.emit(b"optimizer", begin, end, self.take_holes())
        self.before_clearing = []
        self.edge = end
        if self.closes(optimizer) and self.backward_since:
            if not self.marked:
                self.tell_rate(optimizer)
            self.end_step(end)

    def clearing_begins(self):
        """zero_grad() is part of the optimizer's phase, wherever the program calls it."""
        if self.in_optimizer or self.in_backward or self.evaluating or threading.get_ident() != self.thread:
            return None
        return now()

    def clearing_ended(self, begin, _=None):
        end = now()
        self.emit(b"optimizer", begin, end)
        if self.edge and len(self.before_clearing) < 64:
            self.before_clearing.append((self.edge, begin))
        self.edge = end

    def skipped(self, optimizer, before):
        """A GradScaler has run. `before`: optimizer steps until then. Without one more it found inf or NaN: the step
        ends here without its optimizer."""
        if self.optimizer_steps != before or not self.backward_since or threading.get_ident() != self.thread:
            return
        functions = probe.functions()
        if functions is not None:
            functions.mark(b"step skipped by GradScaler")
        if self.closes(optimizer):
            self.end_step(now())

    def step_of_log(self):
        """The step that a value belongs to which is logged now; -1: the program marks its steps, or there are none yet.

        Behind the optimizer, and before the next batch or backward, it is the step that has just ended.
        """
        if self.marked or self.thread is None or self.step < 0:
            return -1
        if threading.get_ident() != self.thread or self.backward_since or self.fetches or not self.begun:
            return self.step
        return max(0, self.step - 1)

    def tell_rate(self, optimizer):
        """The learning rate that a step was made with."""
        groups = getattr(optimizer, "param_groups", None)
        rate = groups[0].get("lr") if groups else None
        functions = probe.found or probe.functions()
        if functions is not None and isinstance(rate, float) and not self.guard.off:
            functions.counter_at(b"lr", None, rate, 0, self.step)

    def closes(self, optimizer):
        """Whether a step ends with this one: of several that with the fewest steps, and of those the last."""
        key = id(optimizer)
        self.optimizer_steps += 1
        counts = self.optimizers.get(key)
        if counts is None:
            counts = self.optimizers[key] = [0, 0]
        counts[0] += 1
        counts[1] = self.optimizer_steps
        if len(self.optimizers) == 1:
            return True
        # One that has stopped (of a model that is no longer trained) closes nothing.
        for other in [k for k, c in self.optimizers.items() if self.optimizer_steps - c[1] > 1000]:
            del self.optimizers[other]
        return all(other[0] >= counts[0] for other in self.optimizers.values())

    def end_step(self, end):
        if self.begun:
            self.last_ns = end - self.begun
            self.guard.step(self.last_ns)
        self.next_begin = end
        self.backward_since = False
        for function in list(self.on_step):
            function(self.step)
        self.begin_step(end)
