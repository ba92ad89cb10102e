"""Memory of torch's allocator at the end of steps, as counters; where it grows, and what was alive when it ran out.

Asking the allocator takes about 0.2 ms: of short steps only every so many are asked about. Lines of the program are known
for what is allocated while torch records them, which costs too much for every step. They are recorded in the first steps,
and for some steps when memory has been seen to grow.
"""
import gc
import os

from . import pauses, probe
from .probe import now
from .tables import Table

SHARE = 500  # of the time in between, at most one part in so many is spent on asking

# Counter: its path in the statistics of the allocator.
COUNTERS = (
    (b"memory allocated", ("allocated_bytes", "all", "current")),
    (b"memory allocated, peak", ("allocated_bytes", "all", "peak")),
    (b"memory reserved", ("reserved_bytes", "all", "current")),
    (b"memory reserved, not in use", ("inactive_split_bytes", "all", "current")),
)

FIRST_STEPS = 3  # whose allocations are recorded with their lines
PARTS, SAMPLES = 8, 16  # memory grows if each part of the last samples lies above the one before
LEAST_GROWTH = 1 << 20  # bytes over these samples
BETWEEN = 6  # steps between the two looks at what is alive
SEARCHES = 3  # at most, each after four times as many samples
MOST_LINES = 10
MOST_TOLD = 4  # times out of memory: convolutions ask again with less


def install(hooks):
    """Of a torch that has just been imported."""
    if getattr(hooks.torch._C, "_cuda_memoryStats", None) is None:
        return
    memory = Memory(hooks)
    hooks.after_steps("memory", memory.step_ended)
    hooks.torch.cuda._lazy_call(lambda: hooks.safely("memory", memory.begins))


def value_of(stats, path):
    for key in path:
        stats = stats.get(key) if isinstance(stats, dict) else None
    return stats


class Memory:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.next_ns = 0
        self.growth = Growth(self)
        self.recording = False  # torch records lines, for us
        self.left_alone = False  # the program records them itself
        self.switch = getattr(self.torch.cuda.memory, "_record_memory_history", None)
        self.told = 0  # how often it was out of memory
        self.out = Table("out_of_memory", {"step": int, "allocated": int, "reserved": int, "total": int, "wanted": int, "line": str})
        self.held = Table("memory_held", {"step": int, "line": str, "bytes": int, "blocks": int})
        self.grown = Table("memory_growth", {"step": int, "line": str, "bytes_per_step": float})

    def begins(self):
        """CUDA is there."""
        if self.switch is not None:
            self.torch.cuda.memory._record_memory_history = self.switched_by_program
        attach = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            attach(lambda *given: self.hooks.safely("out of memory", self.out_of_memory, *given))
            if os.environ.get("TRACESMITH_MEMORY_LINES") != "0":
                self.record_lines(True)

    def step_ended(self, step):
        begin = now()
        if self.recording and step + 1 >= FIRST_STEPS and not self.growth.searching:
            self.record_lines(False)
        guard = self.hooks.guard  # beyond the budget this goes on: it keeps to a limit of its own
        if begin < self.next_ns or (guard.off and not guard.spent) or not self.torch.cuda.is_initialized():
            return
        functions = probe.functions()
        if functions is None:
            return
        stats = self.torch._C._cuda_memoryStats(self.torch.cuda.current_device())
        for name, path in COUNTERS:
            value = value_of(stats, path)
            if value is not None:
                functions.counter_at(name, None, float(value), begin, step)
        end = now()
        self.next_ns = end + SHARE * (end - begin)
        allocated = value_of(stats, COUNTERS[0][1])
        if allocated is not None:
            self.growth.sample(step, allocated)

    def switched_by_program(self, *arguments, **named):
        """In place of torch's function: from now on that is the program's business."""
        self.left_alone, self.recording = True, False
        return self.switch(*arguments, **named)

    def record_lines(self, on):
        """Whether torch does."""
        enabled = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        if self.left_alone or self.switch is None or (on and enabled is not None and enabled()):
            return  # the program's own
        try:
            if on:
                self.switch("state", context="state", stacks="python")
            elif self.recording:
                self.switch(None)
            self.recording = on
        except (AttributeError, TypeError):  # a torch that cannot, or not in this way
            self.recording = False

    def alive(self, device):
        """Line: [bytes, blocks], of what is alive."""
        found, unknown = {}, []
        for segment in self.torch.cuda.memory._snapshot()["segments"]:
            if segment.get("device", device) != device:
                continue
            address = segment.get("address", 0)
            for block in segment["blocks"]:
                size = block["size"]
                if block["state"].startswith("active"):
                    line = line_of(block)
                    if line is None:
                        unknown.append((address, size))
                    else:
                        add(found, line, size)
                address += size
        if unknown:
            names = named_tensors(self.torch)
            for address, size in unknown:
                add(found, names.get(address, "unknown origin"), size)
        return found

    def out_of_memory(self, device, wanted, total, free):
        """Called by the allocator, before it raises."""
        if self.told >= MOST_TOLD:
            return
        self.told += 1
        step = self.hooks.training.step
        stats = self.torch._C._cuda_memoryStats(device)
        self.out.append({"step": step, "allocated": value_of(stats, COUNTERS[0][1]), "reserved": value_of(stats, COUNTERS[2][1]),
                         "total": total, "wanted": wanted, "line": pauses.caller()}, None)
        held = sorted(self.alive(device).items(), key=lambda kept: -kept[1][0])
        for line, (size, blocks) in held[:MOST_LINES]:
            self.held.append({"step": step, "line": line, "bytes": size, "blocks": blocks}, None)


def add(found, line, size):
    kept = found.setdefault(line, [0, 0])
    kept[0] += size
    kept[1] += 1


def line_of(block):
    """Where the program allocated it: the innermost frame that is not torch's."""
    frames = block.get("frames")
    if not frames:
        history = block.get("history")
        frames = history[-1].get("frames") if history else None
    for frame in frames or ():
        if not pauses.foreign(frame["filename"]):
            return "%s:%d" % (os.path.basename(frame["filename"]), frame["line"])
    return None


def named_tensors(torch):
    """Address: what a tensor is for, of tensors that Python knows."""
    names, parameter = {}, torch.nn.Parameter
    for thing in gc.get_objects():
        kind = type(thing)
        if kind is not torch.Tensor and kind is not parameter:
            continue
        try:
            if not thing.is_cuda:
                continue
            storage = thing.untyped_storage() if hasattr(thing, "untyped_storage") else thing.storage()
            if kind is parameter:
                names[storage.data_ptr()] = "parameters"
                if thing.grad is not None:
                    names[thing.grad.data_ptr()] = "gradients"
            else:
                names.setdefault(storage.data_ptr(), "tensors of shape %s" % list(thing.shape))
        except Exception:  # noqa: BLE001 (one that has no memory)
            continue
    return names


class Growth:
    """Finds the lines whose memory grows from step to step."""

    def __init__(self, memory):
        self.memory = memory
        self.samples = []  # (step, bytes), of the last ones
        self.searching = False
        self.first = None  # (step, what was alive then)
        self.began = 0
        self.searches = 0
        self.rest = 0  # samples until the next search may begin

    def sample(self, step, allocated):
        if self.searching:
            return self.search(step)
        self.rest -= 1
        self.samples.append((step, allocated))
        if len(self.samples) > SAMPLES:
            del self.samples[0]
        if self.rest > 0 or self.searches >= SEARCHES or not self.grows():
            return None
        if not hasattr(self.memory.torch.cuda.memory, "_snapshot"):
            self.searches = SEARCHES
            return None
        if not self.memory.recording:
            self.memory.record_lines(True)
        self.searching, self.began, self.first = True, step, None
        return None

    def grows(self):
        if len(self.samples) < SAMPLES:
            return False
        size = SAMPLES // PARTS
        values = [value for _, value in self.samples]
        parts = [values[i : i + size] for i in range(0, SAMPLES, size)]
        rises = all(min(b) > min(a) and max(b) > max(a) for a, b in zip(parts, parts[1:]))
        return rises and values[-1] - values[0] >= LEAST_GROWTH

    def search(self, step):
        device = self.memory.torch.cuda.current_device()
        if self.first is None:
            if step >= self.began + 2:  # what lives for one step has been replaced by something with a line
                self.first = (step, self.memory.alive(device))
            return
        since, before = self.first
        if step < since + BETWEEN:
            return
        grown = [(size - before.get(line, (0, 0))[0], line) for line, (size, _) in self.memory.alive(device).items()]
        for size, line in sorted(grown, reverse=True)[:MOST_LINES]:
            if size > 0:
                self.memory.grown.append({"step": step, "line": line, "bytes_per_step": size / (step - since)}, None)
        self.memory.record_lines(False)
        self.searching, self.first, self.samples = False, None, []
        self.searches += 1
        self.rest = SAMPLES * 4**self.searches
