"""Which functions of torch the hooks stand around. Everything here runs inside the program."""
import functools
import importlib
import re
import sys

from . import collectives, compiling, flops, graphs, loggers, memory, module_memory, modules, pauses, probe, roles
from .guard import Guard
from .imports import say
from .probe import now
from .training import Training

NOTHING = object()  # instead of a batch
FIRST, BEYOND = (1, 13), (3, 0)  # versions of torch that these hooks are made for


def install(torch):
    """Hooks a torch that has just been imported."""
    version = re.match(r"(\d+)\.(\d+)", str(getattr(torch, "__version__", "")))
    if version is None or not FIRST <= tuple(map(int, version.groups())) < BEYOND:
        say("torch %s is not hooked: known are 1.13 to 2.x" % getattr(torch, "__version__", "without a version"))
        return
    hooks = Hooks(torch)
    for name in ("optimizers", "scalers", "backward", "loaders", "evaluation", "profiler", "pauses", "collectives", "memory", "compiling", "modules", "module_memory", "rate", "graphs", "roles", "loggers"):
        try:
            getattr(hooks, name)()
        except Exception as error:  # noqa: BLE001 (a version that differs: the others still work)
            hooks.guard.failure(name, error)


def versions(torch):
    """What the process uses, by the keys that the probe knows."""
    known = [("torch", str(torch.__version__))]
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        known.append(("cuda", str(cuda)))
        try:
            nccl = torch.cuda.nccl.version()  # of the library that is loaded
            known.append(("nccl", ".".join(str(part) for part in nccl[:3])))
        except Exception:  # noqa: BLE001 (a torch without NCCL)
            pass
    return known


class Hooks:
    """The hooks of one process."""

    def __init__(self, torch):
        self.torch = torch
        self.guard = Guard()
        self.training = Training(self.guard)
        self.training.metadata.extend(versions(torch))
        self.on_batch = []  # functions to call when a DataLoader has been asked
        self.inside = False  # of a hook, which may call others: time counts once
        sys._tracesmith_training = self.training  # for tracesmith.log, which is another copy of this package

    def safely(self, hook, function, *arguments):
        """Calls a hook; one that fails is off from then on."""
        guard = self.guard
        if hook in guard.failed:
            return None
        if self.inside:
            try:
                return function(*arguments)
            except Exception as error:  # noqa: BLE001 (the program comes first)
                guard.failure(hook, error)
                return None
        self.inside, begin = True, now()
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001
            guard.failure(hook, error)
            return None
        finally:
            self.inside = False
            guard.own_ns += now() - begin

    def after_steps(self, hook, function):
        """Has function(step) called whenever a step has ended; if it fails, it is off from then on."""
        failed, failure = self.guard.failed, self.guard.failure

        def called(step):
            if hook in failed:
                return
            try:
                function(step)
            except Exception as error:  # noqa: BLE001
                failure(hook, error)

        self.training.on_step.append(called)
        return called

    def with_batches(self, hook, function):
        """Has function(batch) called whenever a DataLoader has been asked; NOTHING: it had no more."""

        def called(batch):
            if hook not in self.guard.failed:
                try:
                    function(batch)
                except Exception as error:  # noqa: BLE001
                    self.guard.failure(hook, error)

        self.on_batch.append(called)

    def around(self, owner, name, hook, before, after, with_names=False):
        """Puts before() and after(what before returned, arguments) around a function of torch. `with_names`: after() also gets
        the arguments that were given by name."""
        original = getattr(owner, name)
        safely = self.safely

        @functools.wraps(original)
        def hooked(*arguments, **named):
            token = now() if before is now else safely(hook, before)
            try:
                return original(*arguments, **named)
            finally:
                if token is not None:
                    safely(hook, after, token, arguments, *((named,) if with_names else ()))

        hooked.tracesmith = True
        setattr(owner, name, hooked)

    # ---- one function for each subject

    def optimizers(self):
        training, safely = self.training, self.safely
        module = importlib.import_module("torch.optim.optimizer")  # it is there: torch.optim hides it
        self.around(module.Optimizer, "zero_grad", "optimizer", training.clearing_begins,
                    training.clearing_ended)
        before = getattr(module, "register_optimizer_step_pre_hook", None)
        after = getattr(module, "register_optimizer_step_post_hook", None)
        if before is not None and after is not None:
            open_steps = []

            def begins(optimizer, arguments, named):
                open_steps.append(safely("optimizer", training.optimizer_begins))

            def ended(optimizer, arguments, named):
                begin = open_steps.pop() if open_steps else None
                del open_steps[:]  # of a step that raised an exception
                safely("optimizer", training.optimizer_ended, optimizer, begin)

            before(begins)
            after(ended)
            return

        def wrap(kind):
            if getattr(kind.step, "tracesmith", False):
                return
            hooked = getattr(kind.step, "hooked", None)
            self.around(kind, "step", "optimizer", training.optimizer_begins,
                        lambda begin, arguments: training.optimizer_ended(arguments[0], begin))
            kind.step.hooked = hooked

        original = module.Optimizer._hook_for_profile

        @functools.wraps(original)
        def hook_for_profile(optimizer, *arguments, **named):
            original(optimizer, *arguments, **named)
            safely("optimizer", wrap, type(optimizer))

        module.Optimizer._hook_for_profile = hook_for_profile
        kinds = [module.Optimizer]
        for kind in kinds:  # those that the program has made already
            kinds.extend(kind.__subclasses__())
            if getattr(kind.step, "hooked", None):
                safely("optimizer", wrap, kind)

    def scalers(self):
        """Those that skip steps whose gradients are not finite."""
        training = self.training
        scaler = getattr(getattr(self.torch, "amp", None), "GradScaler", None) or self.torch.cuda.amp.GradScaler
        kind = next((k for k in reversed(scaler.__mro__) if "step" in k.__dict__), None)

        def stepped(before, arguments):
            if len(arguments) > 1:
                training.skipped(arguments[1], before)

        if kind is not None:
            self.around(kind, "step", "scaler", lambda: training.optimizer_steps, stepped)

    def backward(self):
        training = self.training
        self.around(self.torch.autograd, "backward", "backward", training.backward_begins, training.backward_ended)

    def loaders(self):
        training = self.training
        module = self.torch.utils.data.dataloader

        def fetched(begin, loader, batch):
            training.fetched(begin, now(), batch is not NOTHING)
            for function in self.on_batch:
                function(batch)
            tasks = getattr(loader, "_task_info", None)  # of workers: batches asked for, and those that came too early
            if tasks is None or self.guard.off or training.thread is None:
                return
            functions = probe.functions()
            if functions is not None:
                ready = sum(len(task) == 2 for task in tasks.values()) + loader._data_queue.qsize()
                functions.counter(b"data: batches ready", ready)

        safely, original = self.safely, module._BaseDataLoaderIter.__next__

        @functools.wraps(original)
        def hooked(loader):
            begin, batch = now(), NOTHING
            try:
                batch = original(loader)
                return batch
            finally:
                safely("data", fetched, begin, loader, batch)

        module._BaseDataLoaderIter.__next__ = hooked

        def started(begin, arguments):
            if training.thread is not None:
                training.fetched(begin, now(), False)

        self.around(module.DataLoader, "__iter__", "data", now, started)

    def evaluation(self):
        training = self.training
        self.around(self.torch.nn.Module, "eval", "evaluation", lambda: True, lambda _, __: training.evaluates())

    def profiler(self):
        """A program that calls torch.profiler's step() marks its steps by that."""
        kind = self.torch.profiler.profile

        def marks(begin, arguments):
            functions = probe.functions()
            if functions is not None:
                functions.step_begin(arguments[0].step_num)

        self.around(kind, "step", "profiler", lambda: True, marks)

    def pauses(self):
        pauses.install(self)

    def collectives(self):
        collectives.install(self)

    def memory(self):
        memory.install(self)

    def compiling(self):
        compiling.install(self)

    def modules(self):
        modules.install(self)

    def module_memory(self):
        module_memory.install(self)

    def rate(self):
        flops.install(self)

    def graphs(self):
        graphs.install(self)

    def roles(self):
        roles.install(self)

    def loggers(self):
        loggers.install(self)
