"""Training on the CPU whose torch believes that it has a GPU with an allocator, for the tests of the hooks for memory:
memory_job.py leak|out|killed|steady|own STEPS. The allocator is a stand-in with the functions and answers of torch 2's.
"""
import os
import signal
import sys
import types

import torch

KIND, STEPS = sys.argv[1], int(sys.argv[2])
MIB = 1 << 20


class Allocator:
    """What is alive: (bytes, file, line), of which the latter two are only known while lines are recorded."""

    def __init__(self):
        self.alive = []
        self.recording = False
        self.calls = []

    def allocate(self, size):
        frame = sys._getframe(1)
        self.alive.append((size, frame.f_code.co_filename if self.recording else None, frame.f_lineno))

    def stats(self, _):
        total = sum(size for size, _, _ in self.alive)
        return {"allocated_bytes": {"all": {"current": total, "peak": total}}, "reserved_bytes": {"all": {"current": 2 * total}}}

    def record(self, enabled, context=None, stacks=None):
        self.calls.append(enabled)
        self.recording = enabled is not None

    def snapshot(self):
        frames = lambda file, line: [{"filename": "/x/torch/nn/module.py", "line": 1, "name": "call"}, {"filename": file, "line": line, "name": "f"}]
        blocks = [{"size": size, "state": "active_allocated", "frames": frames(file, line) if file else []} for size, file, line in self.alive]
        return {"segments": [{"device": 0, "address": 0, "blocks": blocks + [{"size": 7, "state": "inactive", "frames": []}]}]}


def pretend(allocator):
    """Hooks this torch once more, as one with a GPU."""
    observers = []
    cuda = types.SimpleNamespace(
        is_initialized=lambda: True, current_device=lambda: 0, _lazy_call=lambda function: function(),
        memory=types.SimpleNamespace(_record_memory_history=allocator.record, _snapshot=allocator.snapshot))
    backend = types.SimpleNamespace(_cuda_memoryStats=allocator.stats, _cuda_attach_out_of_memory_observer=observers.append)
    training = sys._tracesmith_training
    memory = sys.modules["_tracesmith_hooks.memory"]
    memory.SHARE = 0  # asks after every step

    def safely(_, function, *arguments):
        return function(*arguments)

    memory.install(types.SimpleNamespace(
        torch=types.SimpleNamespace(cuda=cuda, _C=backend, nn=torch.nn, Tensor=torch.Tensor), guard=training.guard,
        training=training, safely=safely, after_steps=lambda _, function: training.on_step.append(function)))
    return observers[0], cuda.memory


def main():
    allocator = Allocator()
    out_of_memory, memory = pretend(allocator)
    if KIND == "own":
        memory._record_memory_history("all")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    allocator.allocate(100 * MIB)
    kept = 0
    for i in range(STEPS):
        allocator.allocate(10 * MIB)  # ACTIVATIONS
        if KIND in ("out", "killed") and i == 5:
            allocator.allocate(30 * MIB)
            out_of_memory(0, 50 * MIB, 200 * MIB, 10 * MIB)
            if KIND == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise SystemExit(3)
        model(torch.ones(1, 4)).sum().backward()
        del allocator.alive[-1]
        if KIND == "leak" and i >= 10:
            allocator.allocate(2 * MIB)  # LEAK
            kept += 1
        optimizer.step()
    print(allocator.calls)


if __name__ == "__main__":
    main()
