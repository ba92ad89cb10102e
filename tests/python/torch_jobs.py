"""Runs real torch jobs under ``tracesmith run``, and asks their traces."""

import csv
import importlib.util
import io
import json
import os
import subprocess

import pytest

from tracesmith import _places

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None,
                                 reason="torch is missing: scripts/setup test installs python3-torch")


def environment(**more):
    own = {k: v for k, v in os.environ.items() if not k.startswith("TRACESMITH_DIR")}
    # Hooks may cost anything on the tiny steps of tests, however busy the machine is.
    own.update({"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TRACESMITH_BUDGET_PPM": "1000000", **more})
    return own


class Recorded:
    """Runs a command under ``tracesmith run``, and asks its trace."""

    def __init__(self, folder, *command, flags=(), expect=0, seconds=100, **env):
        self.trace = str(folder / "job.sbt")
        done = subprocess.run([_places.command(), "run", "--force", "--no-telemetry", *flags, "-o", self.trace, "--", *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=seconds,
                              env=environment(**env))
        self.out, self.err = done.stdout, done.stderr
        assert done.returncode == expect, self.err

    def ask(self, sql):
        out = subprocess.run([_places.command(), "query", "--format", "csv", "--max-rows", "0", self.trace, sql],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
        assert out.returncode == 0, out.stderr
        return list(csv.reader(io.StringIO(out.stdout)))[1:]

    def steps(self):
        return [int(row[0]) for row in self.ask("SELECT step FROM steps ORDER BY ts")]

    def ranges(self, name):
        return self.ask("SELECT ts, dur, step FROM events WHERE name = '%s' ORDER BY ts" % name)

    def run(self, command, *flags):
        """What a command says about the trace."""
        out = subprocess.run([_places.command(), command, *flags, self.trace], stdout=subprocess.PIPE,
                             universal_newlines=True, timeout=60)
        return out.stdout

    def analyze(self):
        return json.loads(self.run("analyze", "--json"))
