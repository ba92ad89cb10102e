"""What torch.compile did is named with its line and reason. torch 1.13 has none: the lists of torch 2 are stood in for."""

import sys

from torch_jobs import Recorded, needs_torch

pytestmark = needs_torch

JOB = """
import collections, sys, time, types, torch
utils = types.ModuleType("torch._dynamo.utils")
utils._compilation_metrics = collections.deque(maxlen=64)
utils.graph_break_reasons = []
sys.modules["torch._dynamo.utils"] = utils
one = lambda **more: types.SimpleNamespace(co_filename="/x/train.py", co_firstlineno=57, co_name="forward", **more)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for i in range(8):
    if i == 0:
        utils._compilation_metrics.append(one(compile_id="0/0", recompile_reason=None, start_time_us=time.time_ns() // 1000, duration_us=100))
        stack = [types.SimpleNamespace(filename="/x/train.py", lineno=9), types.SimpleNamespace(filename="/x/model.py", lineno=60)]
        utils.graph_break_reasons.append(types.SimpleNamespace(reason="Call to print\\n  Explanation: ...", user_stack=stack))
    if i in (3, 5):
        utils._compilation_metrics.append(one(compile_id="0/%d" % i, recompile_reason="tensor 'x' size mismatch at index 0",
                                              start_time_us=time.time_ns() // 1000, duration_us=0))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


def test_recompilations_and_graph_breaks_are_named(tmp_path, needs_query):
    job = Recorded(tmp_path, sys.executable, "-c", JOB)
    assert job.ask("SELECT name FROM events WHERE name LIKE 'compile at%'") == [["compile at train.py:57 forward"]]
    notes = [note for note in job.analyze()["notes"] if note.startswith("torch.compile")]
    assert notes == ["torch.compile recompiled train.py:57 forward 2 times in steps 3 to 5: tensor 'x' size mismatch at index 0",
                     "torch.compile broke the graph at model.py:60 1 time in step 0: Call to print"]
