"""Values that the program logs with TensorBoard or Weights & Biases: the loss, the learning rate and what else is a number.

They become counters of their step, as `tracesmith.log` makes them. Only numbers of the host, or of a tensor that has just been
logged, are taken: nothing waits for the GPU that would not have waited.
"""
from . import imports, probe
from .probe import now

MOST_NAMES = 200  # each is kept for as long as the process runs


def install(hooks):
    """Of a torch that has just been imported."""
    logged = Logged(hooks)
    for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
        imports.after(module, lambda writer: logged.tensorboard(getattr(writer, "SummaryWriter", None)))
    imports.after("wandb.sdk.wandb_run", lambda run: logged.wandb(getattr(run, "Run", None)))


class Logged:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.names = set()
        self.plain = hooks.torch._C._TensorBase if hasattr(hooks.torch._C, "_TensorBase") else hooks.torch._C.TensorBase

    def tensorboard(self, kind):
        """`kind`: the class of writers."""
        if kind is None or not hasattr(kind, "add_scalar"):
            return
        self.hooks.around(kind, "add_scalar", "logged values", now, lambda _, given, named: self.one(
            given[1] if len(given) > 1 else named.get("tag"),
            given[2] if len(given) > 2 else named.get("scalar_value")), with_names=True)

    def wandb(self, kind):
        """`kind`: the class of runs."""
        if kind is None or not hasattr(kind, "log"):
            return
        self.hooks.around(kind, "log", "logged values", now, lambda _, given, named: self.many(
            given[1] if len(given) > 1 else named.get("data")), with_names=True)

    def many(self, values):
        if isinstance(values, dict):
            for name, value in values.items():
                self.one(name, value)

    def one(self, name, value):
        functions = probe.functions()
        if functions is None or not isinstance(name, str) or name.startswith("_"):
            return
        number = self.number(value)
        if number is None:
            return
        if name not in self.names:
            if len(self.names) >= MOST_NAMES:
                return
            self.names.add(name)
        step = self.hooks.training.step_of_log()
        functions.counter_at(name.encode("utf-8", "replace"), None, number, now(), step)

    def number(self, value):
        """None: it is none."""
        if isinstance(value, (int, float)):
            return None if isinstance(value, bool) else float(value)
        if isinstance(value, self.hooks.torch.Tensor):
            # By torch's own function: the hooked one would be a stall.
            return float(self.plain.item(value)) if value.numel() == 1 and not value.is_complex() else None
        if getattr(value, "shape", None) == () and hasattr(value, "item"):  # of NumPy
            number = value.item()
            return float(number) if isinstance(number, (int, float)) and not isinstance(number, bool) else None
        return None
