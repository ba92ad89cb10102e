"""Layers of a real pipeline move to where they are fast, and the training does not notice."""

import json
import os
import subprocess
import sys

import pytest
from torch_jobs import needs_torch

import tracesmith
from tracesmith import balance
from tracesmith._pipeline import relative_speeds

PIPELINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pipelined.py")


@pytest.fixture
def train(tmp_path):
    count = []

    def run(mode, steps, ranks=3, **more):
        count.append(mode)
        own = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", WORLD_SIZE=str(ranks),
                   MEETING=str(tmp_path / ("meeting" + str(len(count)))), **more)
        jobs = [subprocess.Popen([sys.executable, PIPELINED, mode, str(steps)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 universal_newlines=True, env=dict(own, RANK=str(r))) for r in range(ranks)]
        ended = [job.communicate(timeout=100) for job in jobs]
        assert [job.returncode for job in jobs] == [0] * ranks, ended
        return [json.loads(out) for out, _ in ended], ended[0][1]

    return run


@needs_torch
def test_layers_move_and_the_losses_stay(train):
    fixed, said = train("fixed", 7)
    assert fixed[0]["division"] == [3, 3, 3] and said == ""
    ranks, said = train("balanced", 7)
    assert ranks[2]["losses"] == fixed[2]["losses"]  # to the last bit, with Adam's state, groups, buffers and a schedule
    first, second, third = division = ranks[0]["division"]  # [4, 4, 1] on a quiet machine
    assert third < 3 and [r["division"] for r in ranks] == [division] * 3
    assert [r["held"] for r in ranks] == [list(range(first)), list(range(first, first + second)), list(range(first + second, 9))]
    assert [r["parameters"] for r in ranks] == [4 * count for count in division] == [r["states"] for r in ranks]
    assert "layers instead of 3, 3, 3 from step 3: the slowest stage takes" in said
    assert "Steps are" in said and "shorter; predicted were" in said
    plan = ranks[0]["plans"][0]
    assert plan["predicted"] > 0.1 and plan["gain"] is not None
    assert ranks[0]["speeds"][2] < 0.8


@needs_torch
def test_a_dry_run_only_tells(train):
    ranks, said = train("dry", 4)
    assert ranks[0]["division"] == [3, 3, 3]
    assert "Not followed: dry run." in said


def test_speeds_come_from_layers_of_one_kind():
    kinds = ["embedding"] + ["block"] * 4 + ["head"]
    times = {(0, 0): 0.5, (1, 0): 0.1, (2, 0): 0.1, (3, 1): 0.2, (4, 1): 0.22, (5, 1): 0.9}
    assert relative_speeds(times, kinds, 2) == pytest.approx([1, 0.48], abs=0.03)
    assert relative_speeds({(0, 0): 0.5, (5, 1): 0.9}, kinds, 2) is None
    assert relative_speeds({(1, 0): 0.1}, kinds, 2) is None


class Stub:
    """A pipeline of two ranks and four equal layers, without torch."""

    ranks, division, number, every = 2, [2, 2], 0, 1
    least_gain, horizon_steps, dry_run = 0.03, 1000, False
    _kinds = ["block"] * 4
    _given, _memory, _links = [], [], []

    def __init__(self, **more):
        self.__dict__.update(more)
        from tracesmith._pipeline import Planner

        self.planner = Planner(self)

    def turn(self, times, step):
        """`times`: of a layer, by rank."""
        own = [0] * self.division[0] + [1] * self.division[1]
        told = [({i: (times[r], 100, 10) for i, at in enumerate(own) if at == r}, step) for r in range(2)]
        return self.planner.turn(told)


def test_a_plan_that_makes_steps_longer_is_taken_back_and_not_tried_again_soon():
    job = Stub()
    assert job.turn((0.1, 0.4), 1.0) == [3, 1]
    job.division = [3, 1]
    assert job.turn((0.1, 0.4), 1.2) == [2, 2]
    assert job.planner.plans[0]["gain"] == pytest.approx(-0.2)
    job.division = [2, 2]
    assert job.turn((0.1, 0.4), 1.0) is None
    assert job.turn((0.1, 0.4), 1.0) == [3, 1]


def test_what_does_not_pay_is_left():
    assert Stub().turn((0.1, 0.101), 1.0) is None
    job = Stub(horizon_steps=10)
    job.planner.moved(60)
    assert job.turn((0.1, 0.4), 1.0) is None  # saves 0.5 s a step, and moving takes a minute


def test_memory_is_kept_to():
    assert Stub(_memory=[250, 250]).turn((0.1, 0.4), 1.0) is None  # three layers take 300 bytes
    assert Stub(_memory=[50, 50]).turn((0.1, 0.4), 1.0) is None  # nothing fits: it stays as it is


def test_wrong_arguments_are_one_sentence():
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(1, 1)]
    optimizer = torch.optim.SGD(layers[0].parameters(), lr=1)
    with pytest.raises(tracesmith.Error, match="speeds has 2 numbers for 1 ranks"):
        balance.Pipeline(layers, optimizer, None, speeds=[1, 2])
    with pytest.raises(tracesmith.Error, match=r"the division \[2\] is not one of 1 layers among 1 ranks"):
        balance.Pipeline(layers, optimizer, None, division=[2])


def test_one_rank_alone_trains_as_torch_does():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    again = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    again.load_state_dict(model.state_dict())
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    pipeline = balance.Pipeline(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
    for _ in range(3):
        loss = pipeline.step(x, y)
        expected = torch.nn.functional.mse_loss(again(x), y)
        expected.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
