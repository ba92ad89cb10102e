"""torch hooked by itself: real training under ``tracesmith run``, without a line of code."""

import os
import sys

import pytest
from torch_jobs import TRAIN, Recorded, needs_torch

pytestmark = needs_torch


@pytest.fixture
def train(tmp_path, needs_query):
    return lambda kind, *args, **options: Recorded(tmp_path, sys.executable, TRAIN, kind, *map(str, args), **options)


def test_steps_and_phases_of_a_plain_loop(train):
    job = train("plain", 6)
    assert job.steps() == list(range(6))
    for phase, least in (("data", 6), ("forward", 6), ("backward", 6), ("optimizer", 6)):
        assert len(job.ranges(phase)) >= least, phase
    # A step begins where the last optimizer ended, forward follows data, backward follows forward.
    for before, after in (("optimizer", None), ("data", "forward"), ("forward", "backward")):
        table = "steps WHERE step > 0" if after is None else "events WHERE name = '%s'" % after
        (alone,), = job.ask("SELECT count(*) FROM (SELECT ts FROM %s) WHERE ts NOT IN (SELECT ts_end FROM events WHERE name = '%s')" % (table, before))
        assert alone == "0", after
    # Phases are all of a step but 2 %, where no other process came between.
    (most,), = job.ask(
        "SELECT max(part) FROM (SELECT sum(e.dur) / any_value(s.dur) AS part FROM events e JOIN steps s USING (step) "
        "WHERE e.name IN ('data', 'forward', 'backward', 'optimizer') AND step > 0 GROUP BY step)")
    assert 0.98 <= float(most) <= 1
    assert "hook" not in job.err


def test_a_loop_without_a_loader_has_steps(train):
    job = train("tensors", 5)
    assert job.steps() == list(range(5))
    assert job.ranges("data") == []


def test_gradient_accumulation_is_one_step(train):
    job = train("accumulate", 4)
    assert job.steps() == list(range(4))
    assert len(job.ranges("backward")) == 12


def test_evaluation_is_no_step(train):
    job = train("evaluate", 9)
    assert job.steps() == list(range(9))
    # That after the last step is not followed by training: nobody knows that it has ended.
    assert len(job.ranges("evaluation")) == 2
    (overlap,), = job.ask("SELECT count(*) FROM steps s, events e WHERE e.name = 'evaluation' AND s.ts < e.ts_end AND s.ts_end > e.ts")
    assert overlap == "0"


def test_two_models_in_turn_make_one_step(train):
    job = train("gan", 6)
    # The second optimizer is only known when it has run once.
    assert len(job.steps()) == 7
    (least,), = job.ask("SELECT min(n) FROM (SELECT step, count(*) AS n FROM events WHERE name = 'optimizer' AND step > 1 GROUP BY step)")
    assert least == "4"  # both step, and both clear their gradients


def test_two_optimizers_of_one_model_make_one_step(train):
    assert len(train("two", 6).steps()) == 6


def test_a_program_that_marks_its_steps_is_left_alone(train):
    job = train("marked", 5, PYTHONPATH=os.environ["PYTHONPATH"])
    assert job.steps() == [100 + i for i in range(5)]
    assert len(job.ranges("backward")) == 5


def test_what_is_logged_behind_the_optimizer_belongs_to_its_step(train):
    job = train("logged", 5, PYTHONPATH=os.environ["PYTHONPATH"])
    assert job.ask("SELECT step, loss, learning_rate FROM python.training_metrics ORDER BY step") == [
        [str(i), "%.1f" % i, str(0.5**i)] for i in range(5)]
    rows = job.ask("SELECT step, score, split FROM python.evals ORDER BY ts")
    assert rows == [[str(i), str(i / 4), ["even", "odd"][i % 2]] for i in range(5)] + [["100", "9.0", ""]]
    # Phases by step, and where in it.
    assert job.ask("SELECT stage, count(*), bool_and(time_offset >= 0 AND duration > 0) FROM python.torch_trace "
                   "WHERE module IS NULL AND stage IN ('forward', 'backward') GROUP BY stage ORDER BY stage") == [["backward", "5", "true"], ["forward", "5", "true"]]


def test_steps_that_a_grad_scaler_skips_are_steps(train):
    job = train("scaled", 6)
    assert job.steps() == list(range(6))
    assert job.ask("SELECT step FROM events WHERE name = 'step skipped by GradScaler' ORDER BY ts") == [["2"], ["3"]]
    assert "hook" not in job.err


def test_steps_of_the_profiler_are_steps(train):
    assert train("profiled", 6).steps() == [0, 1, 2, 3, 4, 5]  # the first one before anybody called step()


def test_checkpoints_and_collections_are_ranges(train, tmp_path):
    job = train("pauses", 6, tmp_path / "model.pt")
    assert len(job.ranges("checkpoint")) == 1
    assert len(job.ranges("gc")) >= 1
