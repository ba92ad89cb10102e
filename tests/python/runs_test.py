"""`tracesmith runs`: recordings of a job over time."""

import json
import os
import subprocess

import pytest

from tracesmith import _places


def synth(command, folder, name, fault="none", events=40000):
    command("synth", "-o", str(folder / name), "--events", str(events), "--ranks", "8", "--gpus-per-node", "4",
            "--fault", fault)


@pytest.fixture
def jobs(command):
    return lambda folder, *more: json.loads(command("runs", str(folder), "--json", *more))["jobs"]


def test_it_names_the_first_that_was_slower_and_what_changed(tmp_path, command, jobs):
    for day in range(1, 4):  # the same model, which runs longer each day
        synth(command, tmp_path, "day{}.sbt".format(day), events=38000 + 2000 * day)
    synth(command, tmp_path, "day4.sbt", "slow-gpu=5:1.5")
    synth(command, tmp_path, "day5.sbt", "slow-gpu=5:1.5", events=44000)
    (job,) = jobs(tmp_path)
    assert [os.path.basename(run["file"]) for run in job["runs"]] == ["day{}.sbt".format(i) for i in range(1, 6)]
    assert os.path.basename(job["first_slower"]) == "day4.sbt"
    assert os.path.basename(job["compared_with"]) == "day3.sbt"
    assert "rank 5" in job["change"]["verdict"]
    assert job["runs"][4]["waited_for"] == 5 and job["runs"][4]["slowdown"] > 1.3
    assert job["runs"][0]["waited_for"] is None
    nodes = json.loads(command("runs", str(tmp_path), "--nodes", "--json"))["nodes"]
    assert nodes[0]["node"] == "node1" and nodes[0]["recordings"] == 5 and nodes[0]["blamed_in"] == 2
    assert os.path.basename(nodes[0]["last_blamed"]) == "day5.sbt"
    assert nodes[1] == {"node": "node0", "recordings": 5, "blamed_in": 0, "xids": 0, "last_blamed": None}
    text = command("runs", str(tmp_path))
    assert "day4.sbt was the first that was slower." in text and "rank 5" in text


def test_runs_that_do_not_get_slower_are_said_to_be_so(tmp_path, command, jobs):
    synth(command, tmp_path, "a.sbt", "slow-gpu=5:1.5")
    for name in ["b.sbt", "c.sbt"]:
        synth(command, tmp_path, name)
    (job,) = jobs(tmp_path)
    assert job["first_slower"] is None and job["change"] is None
    assert "not slower" in command("runs", str(tmp_path))
    assert jobs(tmp_path, "--job", "no such job") == []


def test_one_run_has_nothing_to_be_compared_with(tmp_path, command):
    synth(command, tmp_path, "a.sbt")
    assert "nothing to compare" in command("runs", str(tmp_path))


def test_a_folder_without_recordings_is_an_error(tmp_path):
    done = subprocess.run([_places.command(), "runs", str(tmp_path)], stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 1 and "holds no recordings" in done.stderr
