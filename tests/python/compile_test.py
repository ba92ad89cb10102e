"""What torch.compile did is named with its line and reason. torch 1.13 has none: the lists of torch 2 are stood in for.
Operations of compiled models are counted with a real torch, if it can."""

import os
import subprocess
import sys

import pytest
from torch_jobs import Recorded, needs_torch

pytestmark = needs_torch
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled_model.py")

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
    import torch

    if int(torch.__version__.split(".")[0]) > 1:
        pytest.skip("torch has lists of its own")
    job = Recorded(tmp_path, sys.executable, "-c", JOB)
    assert job.ask("SELECT name FROM events WHERE name LIKE 'compile at%'") == [["compile at train.py:57 forward"]]
    notes = [note for note in job.analyze()["notes"] if note.startswith("torch.compile")]
    assert notes == ["torch.compile recompiled train.py:57 forward 2 times in steps 3 to 5: tensor 'x' size mismatch at index 0",
                     "torch.compile broke the graph at model.py:60 1 time in step 0: Call to print"]


@pytest.fixture
def compiled(tmp_path, needs_query):
    import torch
    from tracesmith.hooks import flops

    if not flops.leaves_compiled(torch):
        pytest.skip("torch %s would compile again when operators are counted: 2.10 is needed" % torch.__version__)
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def run(kind):
        command = (sys.executable, MODEL, kind)
        plain = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, **environment), timeout=300)
        job = Recorded(tmp_path, *command, seconds=300, **environment)
        assert job.out == plain.stdout != ""  # the same bits
        return job, float(job.out.split()[-1])

    return run


@pytest.mark.parametrize("kind", ["whole", "blocks", "break", "backend", "dynamic", "amp"])
def test_operations_of_a_compiled_model_are_those_that_it_was_written_with(compiled, kind):
    job, expected = compiled(kind)
    assert job.ask("SELECT DISTINCT value FROM counters WHERE name = 'flops'") == [[str(expected)]]
    by_module = {name: float(value) for name, value in job.ask("SELECT name[15:], value FROM counters WHERE name LIKE 'module flops: %'")}
    attention = 3 * (2 * 32 * 32 * 96 + 2 * 32 * 32 * 32)  # torch has no formula for the two products of attention on a CPU
    assert by_module["blocks.1.attn.qkv (Linear)"] == 3 * 2 * 32 * 32 * 96
    assert by_module["blocks.1 (Block)"] == by_module["blocks.1.attn (Attention)"] + by_module["blocks.1.mlp (Sequential)"]
    assert by_module["blocks.1.attn (Attention)"] == attention and by_module["model (Model)"] == expected
    # Counting compiles nothing again.
    assert job.ask("SELECT DISTINCT step FROM events WHERE name LIKE 'compile at%' OR name LIKE 'recompile at%'") == [["0"]]


def test_operations_beside_a_compiled_model_are_counted_too(compiled):
    job, expected = compiled("outside")
    assert job.ask("SELECT DISTINCT value FROM counters WHERE name = 'flops'") == [[str(expected)]]


def test_a_backend_that_leaves_backward_as_it_was_is_not_counted(compiled):
    assert compiled("plain")[0].ask("SELECT count(*) FROM counters WHERE name = 'flops'") == [["0"]]
