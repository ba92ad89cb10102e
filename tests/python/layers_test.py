"""Modules of the model on sampled steps: their names, that nothing changes, and who is slow."""

import json
import os
import socket
import subprocess
import sys

import pytest
from ddp_test import Ddp
from torch_jobs import Recorded, environment, needs_torch

import tracesmith
from tracesmith import balance

pytestmark = needs_torch

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")
COMMAND = (sys.executable, LAYERS)


def modules(job, where="true"):
    return {name for name, in job.ask("SELECT DISTINCT name FROM events WHERE name LIKE 'module%%' AND %s" % where)}


def test_modules_are_ranges_of_the_sampled_steps_and_losses_are_the_same_bits(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "12", ODD="1")
    assert job.ask("SELECT DISTINCT step FROM events WHERE name LIKE 'module%' ORDER BY step") == [["4"], ["10"]]
    names = modules(job)
    for name in ("model (Gpt)", "blocks.3.attn.qkv (Linear)", "odd.a (b) é (Returns)", "odd.same (Identity)"):
        assert "module: " + name in names
    assert not [name for name in names if "scripted" in name or "again" in name]
    # Backward passes, also of a module that hands no gradient on; not of one that returns what it is given.
    assert {"module backward: blocks.3.attn (Attention)", "module backward: embed (Embedding)", "module backward: model (Gpt)"} < names
    assert "module backward: odd.same (Identity)" not in names
    # A module lies in the one around it.
    (outside,), = job.ask(
        "SELECT count(*) FROM events i WHERE i.name LIKE 'module: blocks.1.%' AND NOT EXISTS (SELECT 1 FROM events o WHERE "
        "o.name = 'module: blocks.1 (Block)' AND o.step = i.step AND o.ts <= i.ts AND o.ts_end >= i.ts_end)")
    assert outside == "0"
    plain = subprocess.run([*COMMAND, "12"], stdout=subprocess.PIPE, universal_newlines=True, env=environment(ODD="1"), timeout=60)
    assert job.out == plain.stdout != ""


def test_all_ranks_sample_the_same_steps_and_ddp_has_no_name(tmp_path, needs_query):
    job = Recorded(tmp_path, *Ddp(*COMMAND, "6"), WORLD_SIZE="2", MEETING=str(tmp_path / "meeting"))
    assert job.ask("SELECT DISTINCT step FROM events WHERE name LIKE 'module%'") == [["4"]]
    assert modules(job, "rank = 0") == modules(job, "rank = 1") > {"module: model (Gpt)", "module: blocks.0 (Block)"}


def test_costs_of_layers_are_those_of_the_recording(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "12")
    costs = balance.layer_costs(job.trace, "blocks.*")
    listed = {m["name"]: m["total_us"] for m in job.analyze()["modules"]}
    assert [cost["time_s"] for cost in costs] == [pytest.approx(listed["blocks.%d" % i] / 1e6) for i in range(len(costs))]
    assert sum(balance.layers(costs, [{"speed": 2}, {"speed": 1}]).layers) == len(costs) > 2
    with pytest.raises(tracesmith.Error, match=r"has no times of modules nothing.\*: it has .*blocks\.\*"):
        balance.layer_costs(job.trace, "nothing.*")


def test_a_summary_has_no_table_of_times_that_it_does_not_know(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "12", flags=("--keep", "summary"))
    assert "Where the time goes" in job.run("analyze")
    assert "Modules, with all in them" not in job.run("analyze")


def test_a_hook_of_a_module_that_fails_is_off(tmp_path, needs_query):
    code = ("import sys, runpy; import torch; m = sys.modules['_tracesmith_hooks.modules']\n"
            "def fails(*_): raise RuntimeError('injected')\n"
            "m.nodes_of = fails; sys.argv = ['layers.py', '12']; runpy.run_path(%r, run_name='__main__')" % LAYERS)
    job = Recorded(tmp_path, sys.executable, "-c", code)
    assert job.err.count("tracesmith: the hook for module ranges failed and is off: RuntimeError: injected\n") == 1
    assert "Traceback" not in job.err and len(job.out.split()) == 12
    assert modules(job, "step > 4") == set()


def test_modules_beyond_the_budget_are_turned_off(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "42", TRACESMITH_BUDGET_PPM="1")
    assert job.err.count("they are not recorded from step 11 on\n") == 1
    assert modules(job, "step = 10") != set() == modules(job, "step > 10")


def test_a_slow_layer_of_one_rank_is_named(tmp_path, needs_query):
    job = Recorded(tmp_path, *Ddp(*COMMAND, "12"), WORLD_SIZE="2", MEETING=str(tmp_path / "meeting"), SLOW="1")
    analysis = job.analyze()
    slow = [(m["name"], m["slow_ranks"]) for m in analysis["modules"] if m["slowdown"] is not None]
    assert ("blocks.2.attn", [1]) in slow
    assert [n for n in analysis["notes"] if n.startswith("blocks.2.attn takes ") and " its siblings on rank 1: " in n]
    assert analysis["modules"][0]["name"] == "model" and analysis["modules"][0]["launch_us"] is None


def test_operations_samples_and_tokens_are_counted(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "8")
    width, heads, layers, length, batch, vocabulary = 32, 4, 4, 8, 2, 50  # as layers.py has them
    linear = 2 * batch * length * (12 * width * width * layers + width * vocabulary)
    attention = 2 * 2 * batch * length * length * width * layers
    # Those of the gradients are twice as many. The step in which they are counted is not held against the time.
    assert job.ask("SELECT count(*), min(value), max(value) FROM counters WHERE name = 'flops'") == [
        ["4", str(3.0 * (linear + attention)), str(3.0 * (linear + attention))]]
    (ratio,), = job.ask("SELECT max(abs(t.value / s.value - 9)) < 1e-6 FROM counters t JOIN counters s ON t.name = 'tokens/s' "
                        "AND s.name = 'samples/s' AND abs(t.ts - s.ts) < 100000")
    assert ratio == "true"
    # By module, with the backward pass, and with all in it.
    by_module = dict(map(tuple, job.ask("SELECT name[15:], value FROM counters WHERE name LIKE 'module flops: %'")))
    assert float(by_module["model (Gpt)"]) == 3 * (linear + attention)
    assert float(by_module["blocks.1.mlp.0 (Linear)"]) == 3 * 2 * batch * length * 4 * width * width
    assert float(by_module["blocks.3.attn (Attention)"]) == 3 * (2 * batch * length * 4 * width * width + attention // layers)
    rate = job.analyze()["rate"]
    assert rate["step_flops"] == 3 * (linear + attention) and rate["samples_per_s"] > 0
    assert rate["mfu_pct"] is None  # nobody knows what this CPU could do


def test_a_dispatch_mode_of_the_program_stays(tmp_path, needs_query):
    job = Recorded(tmp_path, *COMMAND, "8", MODE="1")  # which checks that it does
    assert "hook" not in job.err
    assert job.ask("SELECT count(*) FROM counters WHERE name = 'flops'") == [["0"]]


def test_convolutions_are_counted_with_the_gradients_they_need():
    import torch
    from tracesmith.hooks import flops

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3, stride=2, groups=2),
                                torch.nn.ConvTranspose2d(4, 2, 2))
    counter = flops.counter_of(torch)
    with counter:
        model(torch.zeros(5, 3, 9, 9)).sum().backward()
    first, second, third = (2 * 5 * 81 * 9 * 3 * 8, 2 * 5 * 16 * 9 * 4 * 4, 2 * 5 * 16 * 4 * 4 * 2)
    # Of the first, nobody needs the gradient of its input. As torch.utils.flop_counter, that of the weights of groups is
    # counted as if there were none.
    assert counter.flops == {"fp32": 2 * first + 2 * second + 2 * 5 * 16 * 9 * 8 * 4 + 3 * third}


def test_peaks_are_found_by_the_names_of_devices():
    from tracesmith.hooks import peaks

    assert peaks.tflops("NVIDIA H200", "bf16") == peaks.tflops("NVIDIA H100 80GB HBM3", "bf16") == 989.5
    assert peaks.tflops("NVIDIA A100-SXM4-80GB", "tf32") == 156
    assert peaks.tflops("NVIDIA H100 PCIe", "bf16") == 756.5
    assert peaks.tflops("Tesla V100-SXM2-16GB", "bf16") is None  # it has none
    assert peaks.tflops("NVIDIA H20", "bf16") is None and peaks.tflops("llvmpipe", "fp32") is None


def test_peaks_that_no_data_sheet_has_are_those_that_were_measured(tmp_path, monkeypatch):
    from tracesmith.hooks import peaks

    def write(*figures):
        record = {"figures": [{"name": "gpu_matrix_tflops", "part": part, "median": value} for part, value in figures]}
        (tmp_path / "node.json").write_text(json.dumps(record))

    for name in ("TRACESMITH_CAPABILITY", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    assert peaks.peak("NVIDIA H20", 0, "bf16") is None
    monkeypatch.setenv("TRACESMITH_CAPABILITY", str(tmp_path / "node.json"))
    assert peaks.peak("NVIDIA H20", 0, "bf16") is None  # there is no such file
    write(("gpu 0 bf16", 120.0), ("gpu 0 fp16", 125.0), ("gpu 1 bf16", 121.0))
    assert peaks.peak("NVIDIA H20", 1, "bf16") == (120.5, "as measured by tracesmith bench")
    assert peaks.peak("NVIDIA H20", 0, "fp64") is None
    assert peaks.peak("NVIDIA H200", 0, "bf16") == (989.5, "by data sheet")
    write(("gpu 0 bf16", 60.0), ("gpu 1 bf16", 120.0))  # which one this is must be known
    assert peaks.peak("NVIDIA H20", 0, "bf16") is None
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert peaks.peak("NVIDIA H20", 0, "bf16")[0] == 60
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert peaks.peak("NVIDIA H20", 0, "bf16")[0] == 120


def test_run_tells_the_hooks_where_the_capability_record_is(tmp_path, needs_query):
    data = tmp_path / "data" / "nodes"
    data.mkdir(parents=True)
    name = "".join(c if c.isalnum() and c.isascii() or c in "-_." else "_" for c in socket.gethostname())
    (data / (name + ".json")).write_text("{}")
    job = Recorded(tmp_path, "sh", "-c", "echo $TRACESMITH_CAPABILITY", TRACESMITH_DATA=str(tmp_path / "data"))
    assert job.out == str(data / (name + ".json")) + "\n"


def test_a_backward_pass_ends_before_that_of_another_branch(tmp_path, needs_query):
    code = """import torch
class Fork(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.side = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.long = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    def forward(self, x):
        x = self.first(x)
        return self.long(x) + self.side(x)
model = Fork()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""
    job = Recorded(tmp_path, sys.executable, "-c", code)
    ends = {name.split()[2]: (int(ts), int(end)) for name, ts, end in job.ask(
        "SELECT name, ts, ts_end FROM events WHERE step = 4 AND name LIKE 'module backward: %'")}
    assert ends["side"][1] <= ends["long"][0]  # it ran last forward, so it runs first
    assert ends["long.0"][1] <= ends["first"][0]


MEMORY = """import gc, sys, types
import torch
hooks = next(h for h in gc.get_objects() if type(h).__name__ == "Hooks")
allocated = 100  # a stand-in for the allocator of a GPU
stats = lambda _: {"allocated_bytes": {"all": {"current": allocated}}, "reserved_bytes": {"all": {"current": 1000}},
                   "inactive_split_bytes": {"all": {"current": 7}}}
pretended = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0),
                                  _C=types.SimpleNamespace(_cuda_memoryStats=stats))
sys.modules["_tracesmith_hooks.module_memory"].install(types.SimpleNamespace(
    torch=pretended, model=hooks.model, training=hooks.training, guard=hooks.guard, safely=hooks.safely,
    after_steps=hooks.after_steps))
class Keeps(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear, self.size = torch.nn.Linear(8, 8), size
    def forward(self, x):
        global allocated
        allocated += self.size
        x = self.linear(x)
        allocated -= self.size // 2
        return x
model = torch.nn.Sequential(Keeps(20), Keeps(60))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(9):
    allocated = 100
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""


def test_memory_is_known_by_module(tmp_path, needs_query):
    job = Recorded(tmp_path, sys.executable, "-c", MEMORY)
    assert "hook" not in job.err
    found = job.ask("SELECT name, series, value FROM counters WHERE name LIKE 'module memory: %' AND step = 7")
    of = {(name[15:], series): float(value) for name, series, value in found}
    assert (of["1 (Keeps)", "before"], of["1 (Keeps)", "after"], of["1 (Keeps)", "kept"]) == (110, 140, 30)
    assert of["1 (Keeps)", "peak"] == of["model (Sequential)", "peak"] == 170  # seen by the layer in it
    assert of["model (Sequential)", "kept"] == 40 and of["0 (Keeps)", "kept"] == 10
    assert (of["0 (Keeps)", "reserved"], of["0 (Keeps)", "not in use"]) == (1000, 7)
    assert job.ask("SELECT DISTINCT step FROM counters WHERE name LIKE 'module memory: %'") == [["7"]]
    modules = {m["name"]: m for m in job.analyze()["modules"]}
    assert modules["1"]["kept_bytes"] == 30 and modules["model"]["peak_bytes"] == 170
    text = job.run("analyze")
    assert "keeps" in text and "170 B" in text
