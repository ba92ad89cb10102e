"""The examples in docstrings and in docs/python.md and docs/balancing.md, run as they stand, beside a trace that is called job.sbt."""

import doctest
import importlib
import os
import pkgutil
import shutil

import pytest

import tracesmith

pytestmark = pytest.mark.usefixtures("needs_query")
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Those that need torch, or do something when imported, are tested elsewhere.
MODULES = [m.name for m in pkgutil.iter_modules(tracesmith.__path__, "tracesmith.") if m.name.split(".")[1] not in ("auto", "__main__")]


@pytest.fixture
def beside(job, tmp_path, monkeypatch):
    shutil.copy(job, str(tmp_path / "job.sbt"))
    monkeypatch.chdir(tmp_path)
    return {"trace": tracesmith.Trace("job.sbt"), "tracesmith": tracesmith}


MODULES += ["tracesmith.gpu.clustering", "tracesmith.gpu.telemetry_protocol"]


@pytest.mark.parametrize("name", ["tracesmith"] + MODULES)
def test_docstrings(name, beside):
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs=beside).failed == 0


@pytest.mark.parametrize("manual", ["python.md", "scheduling.md", "balancing.md"])
def test_the_manual(manual, beside):
    path = os.path.join(CHECKOUT, "docs", manual)
    if not os.path.exists(path):
        pytest.skip("no docs/" + manual)
    failed, tried = doctest.testfile(path, module_relative=False, globs={}, optionflags=doctest.ELLIPSIS)
    assert failed == 0 and tried > 5
