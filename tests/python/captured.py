"""A small model captured into a CUDA graph and replayed, without a GPU: torch's class for graphs talks to the stand-in for CUPTI.

captured.py [REPLAYS]. Each operator that runs while the graph is captured is a node of it; the n-th takes n µs when it is
replayed. Prints the operators, in order. COMPILED: as if torch.compile had compiled something.
"""
import ctypes
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

REPLAYS = int(sys.argv[1]) if len(sys.argv) > 1 else 3

ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # as libcuda does
driver = ctypes.CDLL(os.environ["TRACESMITH_CUPTI"])
for function in (driver.fakeGraph, driver.fakeInstantiate):
    function.restype = ctypes.c_void_p
for function in (driver.fakeGraphNode, driver.fakeInstantiate, driver.fakeReplay):
    function.argtypes = [ctypes.c_void_p]


class Graph(torch.cuda.CUDAGraph):
    """torch's own, but for what its C++ does."""

    def __new__(cls):
        return object.__new__(cls)

    def __init__(self):
        pass


base = torch.cuda.CUDAGraph.__mro__[1]  # of C++, or what stands for it where torch has no CUDA


def capture_begin(graph, *arguments):
    graph.graph = driver.fakeGraph()


def capture_end(graph):
    graph.exec = driver.fakeInstantiate(graph.graph)


base.capture_begin, base.capture_end = capture_begin, capture_end


class OnGpu(TorchDispatchMode):
    """Each operator launches a kernel."""

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        driver.fakeGraphNode(graph.graph)
        print(function._schema.name)
        return function(*arguments, **(named or {}))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(Mlp(), Mlp())

    def forward(self, x):
        return self.layers(x) * 2


if "COMPILED" in os.environ:
    sys.modules["torch._dynamo.utils"] = type(sys)("torch._dynamo.utils")
    sys.modules["torch._dynamo.utils"].counters = {"frames": 1}
model, x = Model(), torch.ones(2, 4)
graph = Graph()
with OnGpu():
    graph.capture_begin()
    model(x).sum().backward()
    graph.capture_end()
    modes = torch._C._len_torch_dispatch_stack() if hasattr(torch._C, "_len_torch_dispatch_stack") else 1
assert modes == 1, modes
assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
for _ in range(REPLAYS):
    driver.fakeReplay(graph.exec)
print("subscribed", driver.fakeSubscriptions(), file=sys.stderr)
