"""How fast the model is trained: operations of a step, samples and tokens a second, and MFU.

Floating point operations are counted on a few steps, from the shapes of what torch runs then, forward and backward: by
the formulas of torch.utils.flop_counter where torch has it, else by the same for products and convolutions. MFU is the
time that the GPU would need for them at its peak (peaks.py) of the time the step took.

Counting means that each operator of the step goes through Python. It changes no number. What torch.compile has compiled is
counted by compiled.py, where torch can leave it compiled meanwhile. Operations are also counted by module.
"""
import importlib
import os
import sys
from collections.abc import Mapping

from . import compiled, peaks, probe

COUNTED = (3, 1000, 10000, 100000)  # steps


def install(hooks):
    """Of a torch that has just been imported."""
    rate = Rate(hooks)
    hooks.with_batches("batches", rate.batch)
    hooks.after_steps("rate", rate.step_ended)
    hooks.training.on_evaluation.append(lambda: hooks.safely("rate", rate.stop))
    os.register_at_fork(after_in_child=lambda: hooks.safely("rate", rate.stop))


class Rate:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.counter = None  # where a step is counted
        self.counted = {}  # (samples, tokens): [FLOPs, seconds at the peak or None]
        self.samples = self.tokens = 0  # of this step
        self.by_module = {}  # FLOPs of each, where a step was counted
        self.compiled = compiled.Compiled(hooks)
        self.told = False

    def batch(self, batch):
        """The program got one from its loader."""
        training = self.hooks.training
        if self.hooks.guard.off or training.evaluating:
            return
        samples, tokens = size_of(batch, self.torch)
        self.samples += samples
        self.tokens += tokens

    def step_ended(self, step):
        """The next one begins."""
        key, self.samples, self.tokens = (self.samples, self.tokens), 0, 0
        flops = self.stop()
        if flops:
            self.counted[key] = [sum(flops.values()), self.seconds(flops)]
            self.tell_modules()
        functions = probe.functions()
        seconds = self.hooks.training.last_ns / 1e9
        if functions is None or self.hooks.guard.off or seconds <= 0:
            return
        if key[0]:
            functions.counter(b"samples/s", key[0] / seconds)
        if key[1]:
            functions.counter(b"tokens/s", key[1] / seconds)
        known = self.counted.get(key)
        if known is not None and not flops:  # the step that was counted took longer for that
            functions.counter(b"flops", known[0])
            if known[1] is not None:
                functions.counter(b"mfu %", 100 * known[1] / seconds)
        if step + 1 in COUNTED and self.counter is None:
            self.start()

    # ---- counting

    def start(self):
        if mode_of(self.torch) is not None or (has_compiled() and not self.compiled.ready()):
            return  # modes of the program must be taken off in order
        model = getattr(self.hooks, "model", None)
        self.by_module = {}
        running = model.running if model is not None and model.follow() else None
        counter = counter_of(self.torch, running, self.by_module)
        counter.__enter__()
        self.counter = counter
        self.compiled.begins(counter, running, self.by_module)

    def stop(self):
        """{precision: FLOPs}; None: nothing was counted."""
        counter = self.counter
        if counter is None:
            return None
        late, counter.off = counter.off or counter.quiet != 0, True
        self.compiled.ended()
        if mode_of(self.torch) is not counter:  # the program has put one of its own on: it is asked again
            return None
        self.counter = None
        counter.__exit__(None, None, None)
        return None if late else counter.flops

    def tell_modules(self):
        functions, by_module, self.by_module = probe.functions(), self.by_module, {}
        if functions is not None:
            for title, count in by_module.items():
                functions.counter(("module flops: " + title).encode("utf-8", "replace"), count)

    def seconds(self, flops):
        """How long the GPU takes for them at its peak; None: not known."""
        cuda = self.torch.cuda
        if not cuda.is_initialized():
            return None
        name, index = cuda.get_device_name(), cuda.current_device()
        seconds, known = 0.0, {}
        for precision, count in flops.items():
            known[precision] = peaks.peak(name, index, precision)
            if known[precision] is None:
                return None
            seconds += count / (known[precision][0] * 1e12)
        if not self.told:
            self.told = True
            most = max(flops, key=flops.get)
            by = "torch's counter" if formulas_of(self.torch)[1] else "the shapes of products and convolutions"
            text = "FLOPs by %s, peak %.0f TFLOP/s %s %s" % (by, known[most][0], most, known[most][1])
            probe.functions().metadata(b"mfu", text.encode())
        return seconds


def size_of(batch, torch):
    """(samples, tokens) of a batch: the first tensor's length; of whole numbers with two dimensions all are tokens."""
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    for part in batch if isinstance(batch, (list, tuple)) else (batch,):
        if isinstance(part, torch.Tensor) and part.dim() > 0:
            tokens = part.dim() == 2 and not part.dtype.is_floating_point and part.dtype is not torch.bool
            return part.shape[0], part.numel() if tokens else 0
    return 0, 0


def has_compiled():
    """Whether torch.compile has compiled anything."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))


def leaves_compiled(torch):
    """Whether compiled code stays compiled under a dispatch mode that says so (torch 2.10 and later): before, torch would compile
    it once more."""
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    return hasattr(guards, "set_is_in_mode_without_ignore_compile_internals")


def mode_of(torch):
    """The innermost dispatch mode that is on; None: none is."""
    length = torch._C._len_torch_dispatch_stack()
    return torch._C._get_dispatch_stack_at(length - 1) if length else None


def counter_of(torch, running=None, by_module=None):
    """A new counter of all that torch runs on this thread, and backward for it, while it is on. `running` tells the modules
    it runs for, whose own are added to `by_module`."""
    formulas, _ = formulas_of(torch)
    plain = (torch.Tensor, torch.nn.Parameter)

    class Counter(importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """flops: by precision."""

        supports_higher_order_operators = True

        def __init__(self):
            super().__init__()
            self.flops = {}
            self.off = False
            self.quiet = 0  # over 0: what runs is counted elsewhere

        @classmethod
        def ignore_compile_internals(cls):
            """What is compiled stays compiled, and is counted by compiled.py."""
            return True

        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            if any(kind not in plain and kind.__name__ == "DTensor" for kind in types):
                return NotImplemented  # comes again with the part that this rank has
            named = named or {}
            result = function(*arguments, **named)
            try:
                formula = formulas.get(getattr(function, "_overloadpacket", None))
                if formula is not None and not self.off and self.quiet == 0:
                    count = formula(*arguments, **named, out_val=result)
                    if count:
                        precision = precision_of(torch, arguments, "conv" in str(function))
                        self.flops[precision] = self.flops.get(precision, 0) + count
                        for module in running() if running is not None else ():
                            by_module[module] = by_module.get(module, 0) + count
            except Exception:  # noqa: BLE001 (a formula that does not know this call)
                self.off = True
                self.flops = {}
            return result

    return Counter()


def precision_of(torch, arguments, convolution):
    """Of a product: "bf16", and "tf32" where products of fp32 may be."""
    kind = next(a.dtype for a in arguments if isinstance(a, torch.Tensor))
    name = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}.get(kind)
    if name is None:
        text = str(kind)
        name = "fp8" if "float8" in text else text.replace("torch.", "")
    if name == "fp32" and torch.cuda.is_initialized():
        return "tf32" if allows_tf32(torch, convolution) else "fp32"
    return name


def allows_tf32(torch, convolution):
    try:
        home = torch.backends.cudnn.conv if convolution else torch.backends.cuda.matmul
        said = home.fp32_precision
        if said in ("tf32", "ieee"):
            return said == "tf32"
    except Exception:  # noqa: BLE001 (before torch 2.9)
        pass
    try:
        return bool(torch._C._get_cudnn_allow_tf32() if convolution else torch._C._get_cublas_allow_tf32())
    except Exception:  # noqa: BLE001 (set by the other way to say it)
        return convolution


_formulas = None


def formulas_of(torch):
    """({operator: formula}, whether they are torch's own)."""
    global _formulas
    if _formulas is None:
        try:
            from torch.utils.flop_counter import flop_registry

            _formulas = dict(flop_registry), True
        except ImportError:
            _formulas = own_formulas(torch.ops.aten), False
    return _formulas


def own_formulas(aten):
    """Of torch before 2.1: as torch.utils.flop_counter has them since then."""

    def product(a, b, *_, **__):
        return 2 * a.numel() * b.shape[-1]

    def added(_, a, b, *__, **___):
        return product(a, b)

    def convolution_of(x, w, out, transposed):
        per_place = 2 * w[0] * w[1]
        for length in w[2:]:
            per_place *= length
        for length in (x if transposed else out)[2:]:
            per_place *= length
        return per_place * x[0]

    def convolution(x, w, _bias, _stride, _padding, _dilation, transposed, *_, out_val=None, **__):
        return convolution_of(x.shape, w.shape, out_val.shape, transposed)

    def convolution_backward(grad, x, w, _bias, _stride, _padding, _dilation, transposed, _output_padding, groups, mask, out_val=None):
        def turned(shape):
            return [shape[1], shape[0]] + list(shape[2:])

        count = 0
        if mask[0]:
            count += convolution_of(grad.shape, w.shape, out_val[0].shape, not transposed)
        if mask[1]:
            if transposed:
                count += convolution_of(turned(grad.shape), turned(x.shape), turned(out_val[1].shape), False)
            else:
                count += convolution_of(turned(x.shape), turned(grad.shape), turned(out_val[1].shape), False)
        return count

    formulas = {aten.mm: product, aten.bmm: product, aten.addmm: added, aten.baddbmm: added}
    for name in ("convolution", "_convolution", "cudnn_convolution"):
        if hasattr(aten, name):
            formulas[getattr(aten, name)] = convolution
    formulas[aten.convolution_backward] = convolution_backward
    return formulas
