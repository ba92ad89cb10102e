"""Memory of torch's allocator at the end of steps, as counters.

Asking the allocator takes about 0.2 ms: of short steps only every so many are asked about.
"""
from . import probe
from .probe import now

SHARE = 500  # of the time in between, at most one part in so many is spent on asking

# Counter: its path in the statistics of the allocator.
COUNTERS = (
    (b"memory allocated", ("allocated_bytes", "all", "current")),
    (b"memory allocated, peak", ("allocated_bytes", "all", "peak")),
    (b"memory reserved", ("reserved_bytes", "all", "current")),
    (b"memory reserved, not in use", ("inactive_split_bytes", "all", "current")),
)


def install(hooks):
    """Of a torch that has just been imported."""
    cuda = hooks.torch.cuda
    statistics = getattr(hooks.torch._C, "_cuda_memoryStats", None)
    if statistics is None:
        return

    next_ns = [0]

    def step_ended(_):
        begin = now()
        if begin < next_ns[0] or hooks.guard.off or not cuda.is_initialized():
            return
        functions = probe.functions()
        if functions is None:
            return
        stats = statistics(cuda.current_device())
        for name, path in COUNTERS:
            value = stats
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                functions.counter(name, float(value))
        end = now()
        next_ns[0] = end + SHARE * (end - begin)

    hooks.training.on_step.append(lambda step: hooks.safely("memory", step_ended, step))
