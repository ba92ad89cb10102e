"""The hooks themselves: what they cost, that they change nothing, and what becomes of them when they fail."""

import re
import subprocess
import sys

import pytest
from torch_jobs import TRAIN, Recorded, environment, needs_torch

pytestmark = needs_torch


@pytest.fixture
def train(tmp_path, needs_query):
    return lambda kind, *args, **options: Recorded(tmp_path, sys.executable, TRAIN, kind, *map(str, args), **options)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader(train, method):
    job = train("workers", 4, method)
    assert job.steps() == list(range(4))
    (processes,), = job.ask("SELECT count(*) FROM processes")
    assert processes == "1"
    assert job.ask("SELECT count(*) > 0 AND max(value) <= 4 FROM counters WHERE name = 'data: batches ready'") == [["true"]]


def test_no_python_turns_it_off(train):
    job = train("plain", 3, flags=["--no-python"])
    assert job.steps() == []


def test_losses_are_the_same_bits(train):
    plain = subprocess.run([sys.executable, TRAIN, "plain", "6"], stdout=subprocess.PIPE, universal_newlines=True,
                           env=environment(), timeout=60)
    assert train("plain", 6).out == plain.stdout != ""


def test_hooks_beyond_the_budget_are_turned_off(train):
    job = train("tensors", 40, TRACESMITH_BUDGET_PPM="1")
    assert len(re.findall(r"more than the budget of 0.00 %: phases are not recorded from step (28|32) on\n", job.err)) == 1
    assert job.ask("SELECT count(*) FROM metadata WHERE key = 'tracesmith: hooks off'") == [["1"]]
    assert job.steps() == list(range(40))
    assert len(job.ranges("backward")) < 32


def test_a_few_steps_run_without_hooks_to_compare(train):
    job = train("tensors", 28)
    counts = dict(map(tuple, job.ask("SELECT step, count(*) FROM events WHERE name = 'forward' GROUP BY step")))
    assert [i for i in range(1, 28) if str(i) not in counts] == [20, 21, 22, 23]


def test_a_hook_that_fails_is_off_and_the_program_goes_on(tmp_path, needs_query):
    code = ("import sys, runpy; import torch; t = sys.modules['_tracesmith_hooks.training'].Training\n"
            "def fails(*_): raise RuntimeError('injected')\n"
            "t.closes = fails; sys.argv = ['train.py', 'plain', '6']; runpy.run_path(%r, run_name='__main__')" % TRAIN)
    job = Recorded(tmp_path, sys.executable, "-c", code)
    assert job.err.count("tracesmith: the hook for optimizer failed and is off: RuntimeError: injected\n") == 1
    assert "Traceback" not in job.err and len(job.out.split()) == 6
    assert len(job.ranges("backward")) == 6


def test_ranks_of_parallelisms_are_metadata(train):
    job = train("plain", 3, TRACESMITH_ROLE="rollout", TRACESMITH_TP_RANK="1", HOROVOD_RANK="5", HOROVOD_SIZE="8")
    facts = dict(map(tuple, job.ask("SELECT key, value FROM metadata")))
    assert facts["tp rank"] == "1"
    assert job.ask("SELECT rank, world_size, role FROM processes") == [["5", "8", "rollout"]]
