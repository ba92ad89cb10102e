"""Local SGD with real processes over gloo: parameters are equal after each averaging, one local step is synchronous
training, and a rank that is late stops the others only at the averaging."""

import json
import os
import subprocess
import sys

import pytest
from torch_jobs import environment, needs_torch

import tracesmith
from tracesmith import balance

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "averaged.py")
RANKS, STEPS, TOTAL = 3, 30, 24


def train(folder, *args, steps=STEPS):
    """What each rank printed."""
    meeting = folder / ("meeting" + "-".join(args))
    ranks = [subprocess.Popen([sys.executable, JOB, args[0], str(steps), *args[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True,
                              env=environment(RANK=str(r), WORLD_SIZE=str(RANKS), MEETING=str(meeting)))
             for r in range(RANKS)]
    try:
        done = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (_, err) in zip(ranks, done):
        assert rank.returncode == 0, err
    return [json.loads(out) for out, _ in done]


def losses(ranks):
    """Of each step, the mean over the samples of all ranks."""
    steps = list(zip(*(rank["steps"] for rank in ranks)))
    return [sum(part["loss"] for part in step) / sum(len(part["samples"]) for part in step) for step in steps]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    return {local_steps: train(folder, local_steps) for local_steps in ("0", "1", "4")}


@needs_torch
def test_one_local_step_is_synchronous_training(jobs):
    assert losses(jobs["1"]) == pytest.approx(losses(jobs["0"]), rel=1e-9)
    for step in zip(*(rank["steps"] for rank in jobs["1"])):
        assert len({part["digest"] for part in step}) == 1


@needs_torch
def test_parameters_are_equal_after_each_averaging_and_only_then(jobs):
    for number, step in enumerate(zip(*(rank["steps"] for rank in jobs["4"]))):
        assert len({part["digest"] for part in step}) == (1 if number % 4 == 3 else RANKS), number
    assert len({rank["digest"] for rank in jobs["4"]}) == 1  # 30 steps are no whole number of periods


@needs_torch
def test_the_loss_goes_down_with_several_local_steps(jobs):
    loss = losses(jobs["4"])
    assert sum(loss[-5:]) < sum(loss[:5]) / 2
    assert loss[4:] != pytest.approx(losses(jobs["0"])[4:], rel=1e-9)  # it is another training


@needs_torch
def test_all_ranks_together_train_each_sample_once_and_begin_plans_together(jobs):
    for steps in zip(*(rank["steps"] for rank in jobs["4"])):
        samples = [i for part in steps for i in part["samples"]]
        assert len(set(samples)) == len(samples) in (TOTAL, 12)
        assert len({part["version"] for part in steps}) == 1


@needs_torch
def test_a_rank_that_is_late_stops_the_others_only_at_the_averaging(tmp_path):
    ranks = train(tmp_path, "4", "late", steps=12)
    assert len({rank["digest"] for rank in ranks}) == 1


@needs_torch
def test_one_process_alone_needs_no_others():
    import torch

    sampler = balance.BatchSampler(range(8), total=4, shuffle=False, local_steps=2)
    model = torch.nn.Linear(1, 1)
    local = balance.LocalSGD(model, torch.optim.SGD(model.parameters(), lr=0.1), sampler)
    with pytest.raises(tracesmith.Error, match="this step has no batch of the sampler"):
        local.step()
    for batch in sampler:
        model(torch.tensor(batch, dtype=torch.float).view(-1, 1)).pow(2).mean().backward()
        local.step()
    assert sampler.now.number == 1


@needs_torch
def test_what_cannot_be_is_said():
    class Wrapped:
        module = register_comm_hook = process_group = None

    sampler = balance.BatchSampler(range(8), total=4, local_steps=2)
    with pytest.raises(tracesmith.Error, match="for local_steps use balance.LocalSGD"):
        balance.weighted(Wrapped(), sampler)
    with pytest.raises(tracesmith.Error, match="without DistributedDataParallel"):
        balance.LocalSGD(Wrapped(), None, sampler)
    with pytest.raises(tracesmith.Error, match="local_steps must be 1 or more"):
        balance.BatchSampler(range(8), total=4, local_steps=0)
