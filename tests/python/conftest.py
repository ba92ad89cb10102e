"""What the tests of the Python package share. ctest sets PYTHONPATH and TRACESMITH_HOME (tests/CMakeLists.txt)."""

import os
import subprocess
import sys

import pytest

from tracesmith import _places


def run(*args, **options):
    """Runs a command; its standard output, if it succeeds."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def python():
    """Runs Python code in a process of its own."""
    return lambda code, *args, **options: run(sys.executable, "-c", code, *args, **options)


@pytest.fixture(scope="session")
def command():
    """Runs ``tracesmith`` with arguments."""
    return lambda *args, **options: run(_places.command(), *args, **options)


@pytest.fixture(scope="session")
def job(tmp_path_factory, command):
    """A trace of a simulated job of 32 ranks on 4 nodes, of which rank 3 is slow."""
    path = str(tmp_path_factory.mktemp("job") / "job.sbt")
    command("synth", "-o", path, "--events", "20000", "--fault", "slow-gpu=3:1.5")
    return path


@pytest.fixture(scope="session")
def needs_query():
    try:
        _places.library("libtracesmith_query.so")
    except _places.Missing:
        pytest.skip("built without SQL")
    return os.environ.get("TRACESMITH_HOME")
