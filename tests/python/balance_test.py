"""Balancing of a real DDP job over gloo: the same samples and the same loss as without it, and plans that begin at the
same step on all ranks."""

import json
import os
import subprocess
import sys

import pytest
from torch_jobs import environment, needs_torch

import tracesmith
from tracesmith import balance

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "balanced.py")
RANKS, STEPS, TOTAL = 3, 43, 24


def train(folder, mode, *args, steps=STEPS):
    """What each rank printed, and what rank 0 logged."""
    meeting = folder / ("{}-meeting-{}".format(mode, len(os.listdir(str(folder)))))
    ranks = [subprocess.Popen([sys.executable, JOB, mode, str(steps), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True,
                              env=environment(RANK=str(r), WORLD_SIZE=str(RANKS), MEETING=str(meeting)))
             for r in range(RANKS)]
    try:
        done = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, err) in zip(ranks, done):
        assert rank.returncode == 0, err
    return [json.loads(out) for out, _ in done], done[0][1]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("balance")
    uniform, _ = train(folder, "uniform")
    balanced, log = train(folder, "balanced")
    return uniform, balanced, log


@needs_torch
def test_all_ranks_together_train_the_samples_of_the_uniform_run(jobs):
    uniform, balanced, _ = jobs
    for step in range(STEPS):
        same = sorted(i for rank in uniform for i in rank["trained"][step]["samples"])
        parts = [rank["trained"][step]["samples"] for rank in balanced]
        assert sorted(i for part in parts for i in part) == same and all(parts), step


@needs_torch
def test_the_loss_is_that_of_the_uniform_run(jobs):
    uniform, balanced, _ = jobs
    for rank in balanced:
        assert rank["losses"] == pytest.approx(uniform[0]["losses"], rel=1e-9)
        assert rank["parameters"] == pytest.approx(uniform[0]["parameters"], rel=1e-9)
    assert balanced[0]["losses"][-1] < balanced[0]["losses"][0] / 2


@needs_torch
def test_a_job_begins_with_the_speeds_of_the_one_before(tmp_path):
    path = str(tmp_path / "history")
    _, log = train(tmp_path, "balanced", path, steps=12)
    assert "{} has no Model with 161 float64 parameters with 24 samples in a step: the job begins with equal batches.".format(path) in log
    with open(path) as file:
        saved = json.load(file)["jobs"][0]
    ranks, log = train(tmp_path, "balanced", path, steps=1)
    assert "The job begins with the speeds of {}, saved {}.".format(path, saved["saved"]) in log
    speeds = [device["samples_per_s"] for device in saved["devices"]]
    assert [len(rank["trained"][0]["samples"]) for rank in ranks] == balance.batches(TOTAL, speeds)


@needs_torch
def test_a_plan_begins_at_the_same_step_on_all_ranks(jobs):
    _, balanced, log = jobs
    versions = [[step["version"] for step in rank["trained"]] for rank in balanced]
    assert versions[0] == versions[1] == versions[2]
    assert versions[0][0] == 1 and versions[0][-1] > 1, log
    first = versions[0].index(2)
    assert "Plan 2 is in force from step {}.".format(first) in log
    # Which batches they are depends on how busy the machine is; tests/schedule has that without a clock.
    for step in range(STEPS):
        samples = sum(len(rank["trained"][step]["samples"]) for rank in balanced)
        assert samples == (12 if step % 5 == 4 else TOTAL), step


def test_the_last_step_of_an_epoch_may_be_smaller():
    sampler = balance.BatchSampler(range(10), total=4, shuffle=False)
    assert list(sampler) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and len(sampler) == 3
    assert len(list(balance.BatchSampler(range(10), total=4, shuffle=False, drop_last=True))) == 2


def test_the_batch_in_training_is_known_before_its_gradients_are_exchanged():
    sampler = balance.BatchSampler(range(16), total=8, shuffle=False, most_batch=[4], accumulate=True)
    assert sampler.current is None
    for number, batch in enumerate(sampler):
        assert (sampler.current.number, sampler.current.batch, sampler.current.micro_batches) == (number, len(batch), 2)
        assert sampler.trained().number == sampler.now.number == number
        assert sampler.current is None


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(tracesmith.Error, match="0 samples cannot be divided among 1 rank"):
        balance.BatchSampler(range(10), total=0)
    with pytest.raises(tracesmith.Error, match="has no field 'polcy'"):
        balance.BatchSampler(range(10), total=4, polcy="dynamic")
    path = str(tmp_path / "page")
    first = balance.BatchSampler(range(10), total=4, path=path)
    with pytest.raises(tracesmith.Error, match="another coordinator balances the job"):
        balance.BalanceCoordinator(path=path).attach()
    with pytest.raises(tracesmith.Error, match="there is no plan before this one"):
        first.undo()
    with pytest.raises(tracesmith.Error, match="a batch of 64 does not fit"):
        balance.batches(64, [1, 1], [8, 8])


def test_a_page_that_is_gone_leaves_the_last_plan_in_force(tmp_path):
    path = str(tmp_path / "page")
    sampler = balance.BatchSampler(range(12), total=4, shuffle=False, path=path)
    got = []
    for indices in sampler:
        got.append(indices)
        os.truncate(path, 0)
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_the_state_has_the_rank_that_became_slow(tmp_path):
    path = str(tmp_path / "page")
    coordinator = balance.BalanceCoordinator(path=path, balancer={"ranks": 2, "total": 16})
    coordinator.create()
    ranks = [balance.BalanceRank(path=path, rank=r) for r in range(2)]
    said = []
    for rank in ranks:
        rank.open()
    for step in range(30):
        for r, rank in enumerate(ranks):
            rank.begin(step, 16)
            rank.report(step, 8, 0.2 if r == 1 and 10 <= step < 20 else 0.1, 0.2)
        said += coordinator.turn()
        slow = [rank.slow_since for rank in coordinator.state().ranks]
        assert slow == [None, 10 if 12 <= step < 22 else None], step
    assert "Rank 1 has been slow since step 10: its steps take 2 times as long as usual." in said
    assert "Rank 1 is as fast as usual again, in step 22." in said
