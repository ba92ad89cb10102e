"""Speeds of earlier jobs as a start: which devices and jobs they are for, and files that are none."""

import json
import logging
import os

import pytest

import tracesmith
from tracesmith import balance
from tracesmith._history import History

MODEL, TOTAL = "Net with 10 float32 parameters", 24


def gpu(number, name="GPU", share="100 %"):
    return {"name": name, "where": "uuid-{}".format(number), "share": share}


@pytest.fixture
def coordinator(tmp_path):
    """Of a job whose ranks have the given speeds."""

    def make(*speeds):
        path = str(tmp_path / "page-{}".format(len(os.listdir(str(tmp_path)))))
        made = balance.BalanceCoordinator(path=path, balancer={"ranks": len(speeds), "total": TOTAL})
        made.create()
        for r, speed in enumerate(speeds):
            rank = balance.BalanceRank(path=path, rank=r)
            rank.open()
            for step in range(4):
                rank.report(step, 8, 8 / speed, 0.0)
        made.turn()
        return made

    return make


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "history.json")


def speeds(path, devices, model=MODEL, total=TOTAL):
    return History(path, model, total, devices).speeds()


def test_devices_have_the_speeds_that_they_had(path, coordinator):
    History(path, MODEL, TOTAL, [gpu(0), gpu(1), gpu(2)]).save(coordinator(30, 20, 10))
    assert speeds(path, [gpu(0), gpu(1), gpu(2)]) == pytest.approx([30, 20, 10])
    assert speeds(path, [gpu(2), gpu(0)]) == pytest.approx([10, 30])


def test_ranks_on_one_device_keep_their_order(path, coordinator):
    History(path, MODEL, TOTAL, [gpu(0)] * 2 + [gpu(0, share="25 %")]).save(coordinator(30, 20, 10))
    assert speeds(path, [gpu(0, share="25 %"), gpu(0), gpu(0)]) == pytest.approx([10, 30, 20])


def test_an_unknown_device_is_as_fast_as_others_of_its_name(path, coordinator, caplog):
    caplog.set_level(logging.INFO)
    History(path, MODEL, TOTAL, [gpu(0), gpu(1), gpu(2)]).save(coordinator(30, 20, 10))
    assert speeds(path, [gpu(0), gpu(7)]) == pytest.approx([30, 20])
    assert speeds(path, [gpu(0), gpu(1, name="other")]) == []
    assert speeds(path, [gpu(0), gpu(7, share="50 %")]) == []
    assert [r.message for r in caplog.records][1:] == [
        path + " has no other (100 %), the device of rank 1: the job begins with equal batches.",
        path + " has no GPU (50 %), the device of rank 1: the job begins with equal batches.",
    ]


def test_another_model_or_total_has_speeds_of_its_own(path, coordinator, caplog):
    caplog.set_level(logging.INFO)
    History(path, MODEL, TOTAL, [gpu(0), gpu(1)]).save(coordinator(30, 20))
    assert speeds(path, [gpu(0), gpu(1)], total=48) == []
    assert speeds(path, [gpu(0), gpu(1)], model="Large") == []
    assert [r.message for r in caplog.records][0] == (
        path + " has no Net with 10 float32 parameters with 48 samples in a step: the job begins with equal batches.")
    History(path, "Large", TOTAL, [gpu(0), gpu(1)]).save(coordinator(3, 4))
    assert speeds(path, [gpu(0), gpu(1)], model="Large") == pytest.approx([3, 4])
    assert speeds(path, [gpu(0), gpu(1)]) == pytest.approx([30, 20])


def test_devices_of_other_jobs_stay_in_the_file(path, coordinator):
    History(path, MODEL, TOTAL, [gpu(0), gpu(1)]).save(coordinator(30, 20))
    History(path, MODEL, TOTAL, [gpu(1), gpu(2)]).save(coordinator(21, 10))
    assert speeds(path, [gpu(0), gpu(1), gpu(2)]) == pytest.approx([30, 21, 10])
    assert os.listdir(os.path.dirname(path)).count("history.json") == 1
    assert not [name for name in os.listdir(os.path.dirname(path)) if name.startswith("history.json.")]


def test_nothing_is_saved_before_every_rank_has_measured(path, tmp_path):
    empty = balance.BalanceCoordinator(path=str(tmp_path / "page"), balancer={"ranks": 2, "total": TOTAL})
    empty.create()
    History(path, MODEL, TOTAL, [gpu(0), gpu(1)]).save(empty)
    assert not os.path.exists(path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"weights": [1, 2]}', json.dumps({"kind": "speeds of devices, by TraceSmith"}),
                                     json.dumps({"kind": "speeds of devices, by TraceSmith", "jobs": [{"model": MODEL}]})])
def test_a_file_that_is_something_else_is_left_as_it_is(path, coordinator, caplog, content):
    with open(path, "w") as file:
        file.write(content)
    history = History(path, MODEL, TOTAL, [gpu(0), gpu(1)])
    assert history.speeds() == []
    history.save(coordinator(30, 20))
    with open(path) as file:
        assert file.read() == content
    assert [r.message for r in caplog.records] == [
        path + " is not a history of speeds: it is left as it is. Remove it, or name another file."]


def test_a_folder_that_is_not_there_is_told_once(tmp_path, coordinator, caplog):
    history = History(str(tmp_path / "none" / "history.json"), MODEL, TOTAL, [gpu(0), gpu(1)])
    for _ in range(2):
        history.save(coordinator(30, 20))
    assert len(caplog.records) == 1 and "The history is not saved: " in caplog.text


def test_given_speeds_and_a_history_contradict_each_other(path):
    for more in ({"speeds": [1.0]}, {"policy": "dynamic"}):
        with pytest.raises(tracesmith.Error, match="leave out speeds and policy='dynamic'"):
            balance.BatchSampler(range(8), total=4, history=path, **more)


def test_a_sampler_saves_in_the_end(path, caplog):
    caplog.set_level(logging.INFO)
    sampler = balance.BatchSampler(range(40), total=4, shuffle=False, history=path)
    for _ in sampler:
        sampler.report(sampler.trained(), 0.5, 0.5)
    assert not os.path.exists(path)
    del sampler
    again = balance.BatchSampler(range(40), total=4, history=path)
    assert list(again)
    assert "The job begins with the speeds of {}, saved 20".format(path) in caplog.text


def test_speeds_of_a_recorded_job(job):
    """Rank 3 takes 1.5 times as long for its kernels; what waits for it does not count."""
    found = balance.speeds(job)
    assert len(found) == 32 and max(found) == 1
    assert found[3] == min(found) and found[3] < 0.85 < sorted(found)[1]
    twice = balance.speeds(job, batches=[2 if rank == 3 else 1 for rank in range(32)])
    assert twice[3] == max(twice) == 1
    with pytest.raises(tracesmith.Error, match="2 batches for 32 ranks"):
        balance.speeds(job, batches=[1, 1])
