"""CUDA graphs: kernels that are replayed belong to the modules and operators they were captured from."""

import os
import sys

from torch_jobs import Recorded, needs_torch

pytestmark = needs_torch

CAPTURED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "captured.py")
CUPTI = os.path.join(os.environ.get("TRACESMITH_HOME", ""), "lib", "tests", "libcupti.so.13")

REPLAYED = "SELECT %s FROM python.graph_trace WHERE kernel = 'replayed' %s"


def recorded(tmp_path, *flags, **env):
    return Recorded(tmp_path, sys.executable, CAPTURED, flags=flags, TRACESMITH_CUPTI=CUPTI, **env)


def test_a_replayed_kernel_has_the_module_operator_and_shapes_of_its_node(tmp_path, needs_query):
    job = recorded(tmp_path, "--graph-nodes")
    made = job.out.split()
    assert len(made) > 20 and "subscribed 1\n" in job.err  # and no longer
    # Each node once per replay, in order, each by the operator that made it.
    rows = job.ask(REPLAYED % ("op", "ORDER BY ts"))
    assert [op for op, in rows] == 3 * made
    rows = job.ask(REPLAYED % ("DISTINCT module, phase, modules", "AND op IN ('aten::addmm', 'aten::mm')"))
    titles = {module: title for module, phase, title in rows if phase == "forward"}
    assert titles["layers.1.down"] == "model (Model) > layers (Sequential) > layers.1 (Mlp) > layers.1.down (Linear)"
    for phase in ("forward", "backward"):
        assert {m for m, p, _ in rows if p == phase} == {"layers.%d.%s" % (i, n) for i in (0, 1) for n in ("up", "down")}
    assert job.ask(REPLAYED % ("DISTINCT module, shapes", "AND op = 'aten::addmm' AND module = 'layers.0.up'")) == [
        ["layers.0.up", "[[8], [2, 4], [4, 8]]"]]
    # What is in no module.
    assert job.ask(REPLAYED % ("DISTINCT module, phase", "AND op = 'aten::ones_like'")) == [["", ""]]
    # The n-th kernel takes n µs, and counts for all modules around it.
    (down, model), = job.ask(REPLAYED % (
        "sum(duration_us) FILTER (module = 'layers.1.down') / 3, sum(duration_us) FILTER (starts_with(modules, 'model (Model)')) / 3", ""))
    times = {m["name"]: m["total_us"] for m in job.analyze()["modules"]}
    assert times["layers.1.down"] == float(down) > 0 and times["model"] == float(model) > times["layers"] > times["layers.0"]


def test_where_another_profiler_has_cupti_graphs_have_no_modules(tmp_path, needs_query):
    job = recorded(tmp_path, "--graph-nodes", FAKE_CUPTI_SUBSCRIBED="1")
    assert job.ask("SELECT count(*) FROM graph_nodes") == [["0"]]
    assert job.ask(REPLAYED % ("count(*), count(module)", "")) == [[str(3 * len(job.out.split())), "0"]]


def test_a_hook_that_fails_leaves_the_capture_alone(tmp_path, needs_query):
    for function in ("look_around", "operator"):
        code = ("import sys, runpy; import torch; sys.argv = ['captured.py']\n"
                "def fails(*_): raise RuntimeError('injected')\n"
                "sys.modules['_tracesmith_hooks.graphs'].Captures.%s = fails; runpy.run_path(%r, run_name='__main__')" % (function, CAPTURED))
        job = Recorded(tmp_path, sys.executable, "-c", code, TRACESMITH_CUPTI=CUPTI)
        assert job.err.count("tracesmith: the hook for graphs failed and is off: RuntimeError: injected\n") == 1
        assert "Traceback" not in job.err and "subscribed 1\n" in job.err


def test_what_torch_compile_compiled_is_captured_as_it_is(tmp_path, needs_query):
    job = recorded(tmp_path, "--graph-nodes", COMPILED="1")  # a dispatch mode would undo it
    assert job.ask("SELECT count(op), count(DISTINCT module) > 5 FROM graph_nodes") == [["0", "true"]]
