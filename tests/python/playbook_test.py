"""Playbooks, each on a recording whose truth is known."""

import json
import os
import subprocess
import time

import pytest

from tracesmith import _places

pytestmark = pytest.mark.usefixtures("needs_query")


@pytest.fixture(scope="module")
def trace(tmp_path_factory, command):
    """A simulated job of 16 ranks on 4 nodes with a fault."""
    made = {}
    folder = tmp_path_factory.mktemp("playbooks")

    def make(fault):
        if fault not in made:
            made[fault] = str(folder / (fault.split("=")[0] + ".sbt"))
            command("synth", "-o", made[fault], "--events", "60000", "--ranks", "16", "--gpus-per-node", "4", "--fault", fault)
        return made[fault]
    return make


@pytest.fixture
def first(command):
    """The first finding of a playbook: one sentence."""
    def run(name, *traces):
        findings = json.loads(command("playbook", name, *traces, "--json"))["findings"]
        assert all(part["title"] and part["read"] and part["answer"]["columns"] for part in findings)
        answer = findings[0]["answer"]
        assert [column["name"] for column in answer["columns"]] == ["finding"]
        return answer["rows"][0][0]
    return run


ONE_GPU = """{"traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 30, "args": {"device": 0, "stream": 7, "correlation": 1}},
  {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": 90, "dur": 10, "args": {"device": 0, "stream": 7, "correlation": 2}}]}"""


@pytest.mark.parametrize("content", [ONE_GPU, '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'])
def test_without_ranks_steps_or_kernels_each_has_a_finding(tmp_path, command, first, content):
    one, other = tmp_path / "a.json", tmp_path / "b.json"
    for file in (one, other):
        file.write_text(content)
    for name in ("slow-job", "slow-gpu", "network", "data-loader", "idle-gpu", "kernels", "checkpoints", "hang", "trust"):
        assert first(name, str(one)), name
    assert first("slower-since", str(one), str(other)).startswith("Cannot tell")
    if content is ONE_GPU:
        assert first("slow-job", str(one)).startswith("The GPUs have nothing to do 55.6 %")
        assert first("idle-gpu", str(one)).startswith("The GPUs are idle 55.6 %")


@pytest.mark.parametrize("name, fault, says", [
    ("slow-job", "slow-gpu=5:1.4", "mostly for rank 5"),
    ("slow-job", "late=3:20", "mostly for rank 3"),
    ("slow-gpu", "slow-gpu=5:1.4", "The GPU of rank 5 on node1 takes 40 % longer"),
    ("slow-gpu", "none", "No GPU is slower"),
    ("network", "slow-link=2:3", "Operations of node2-tp reach"),
    ("network", "none", "No communicator is slower"),
    ("data-loader", "late=3:20", "Rank 3 gets its batches late: its GPU begins 20"),
    ("data-loader", "none", "The data loader is not late"),
    ("idle-gpu", "late=3:20", "The GPU of rank 3 is idle"),
    ("idle-gpu", "none", "The GPUs are busy"),
    ("checkpoints", "checkpoint=4:200", "they come every 4 steps"),
    ("checkpoints", "none", "No step takes much longer"),
    ("hang", "none", "the job did not hang"),
    ("trust", "none", "Nothing was lost"),
])
def test_it_finds_what_was_simulated(first, trace, name, fault, says):
    assert says in first(name, trace(fault))


def test_the_kernel_that_takes_most_is_named(first, trace, command):
    most = command("query", trace("none"), "--format", "csv",
                   "SELECT name[:80] FROM events WHERE type = 'kernel' AND NOT is_communication(name) "
                   "GROUP BY name ORDER BY sum(dur) DESC LIMIT 1")
    assert most.splitlines()[1].strip('"') in first("kernels", trace("none"))


def test_it_says_why_a_job_got_slower(first, trace):
    slower = first("slower-since", trace("none"), trace("slow-gpu=5:1.4"))
    assert "Most of it is rank 5" in slower
    assert "has not become slower" in first("slower-since", trace("slow-gpu=5:1.4"), trace("none"))


def test_it_says_who_hangs(first, tmp_path, command):
    hung, env = str(tmp_path / "hung.sbt"), dict(os.environ, TRACESMITH_DIR=str(tmp_path / "rings"))
    os.mkdir(env["TRACESMITH_DIR"], 0o700)
    job = subprocess.Popen([_places.command(), "synth", "--live", "--ranks", "8", "--gpus-per-node", "8", "--speed", "20",
                            "--step-ms", "20", "--fault", "hang=3:5"], env=env, stderr=subprocess.DEVNULL)
    try:
        finding, deadline = "", time.monotonic() + 60
        while not finding.startswith("Rank 3 has not reached operation") and time.monotonic() < deadline:
            time.sleep(0.2)  # until the others have come to where they wait
            record = [_places.command(), "record", "--all", "--last", "60", "-o", hung, "--force"]
            done = subprocess.run(record, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            finding = first("hang", hung) if done.returncode == 0 else done.stderr.decode()
        assert finding.startswith("Rank 3 has not reached operation"), finding
    finally:
        job.kill()
        job.wait()


def test_the_list_has_a_question_for_each(command):
    listed = json.loads(command("playbook", "--json"))["playbooks"]
    assert len(listed) == 10 and all(one["question"].endswith("?") for one in listed)
    assert "Who hangs?" in command("playbook")


def test_a_playbook_of_ones_own(tmp_path, trace, command):
    own = tmp_path / "own.sql"
    own.write_text("-- How many ranks?\n-- Read it.\n\n-- Ranks\n-- One row.\nSELECT count(DISTINCT rank) AS ranks\nFROM events;\n")
    assert command("playbook", str(own), trace("none")).splitlines()[-1].strip() == "16"
    for text, why in [("SELECT 1;", "begins with a statement"), ("-- Q?\n\n-- T\nSELECT 1", "does not end with"),
                      ("-- Q?\n\nSELECT 1;", "has no title"), ("", "no statement")]:
        own.write_text(text)
        done = subprocess.run([_places.command(), "playbook", str(own), trace("none")], stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 1 and why in done.stderr


def test_what_is_not_there_is_said(trace):
    done = subprocess.run([_places.command(), "playbook", "nothing", trace("none")], stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 1 and "there is no playbook 'nothing'" in done.stderr
    done = subprocess.run([_places.command(), "playbook", "slower-since", trace("none")], stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 2 and "two traces" in done.stderr
