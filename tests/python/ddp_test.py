"""DDP over gloo on several processes, hooked by itself: who made the others wait, without a GPU."""

import json
import subprocess
import sys

from torch_jobs import TRAIN, Recorded, environment, needs_torch

pytestmark = needs_torch


class Ddp:
    """A shell command that runs ranks of DDP."""

    SCRIPT = ('rm -f "$MEETING"; for r in $(seq 1 $((WORLD_SIZE - 1))); do RANK=$r "$@" & done; RANK=0 "$@"; rc=$?; wait; exit $rc')

    def __new__(cls, *command):
        return ("sh", "-c", cls.SCRIPT, "sh") + command


def test_the_rank_with_late_data_is_named(tmp_path, needs_query):
    env = {"WORLD_SIZE": "3", "MEETING": str(tmp_path / "meeting"), "LATE": "1"}
    command = Ddp(sys.executable, TRAIN, "ddp", "10")
    job = Recorded(tmp_path, *command, **env)
    verdict = job.analyze()["verdict"]
    assert (verdict["rank"], verdict["cause"]) == (1, "data_loading"), verdict
    # Every operation met those of the other ranks.
    rows = {(op, comm): (int(n), int(seqs)) for op, comm, n, seqs in job.ask(
        "SELECT op, comm, count(*), count(DISTINCT seq) FROM collectives WHERE ts IS NOT NULL GROUP BY ALL")}
    assert rows["all_reduce", "gloo 0 DDP"] == (30, 10)
    assert rows["all_reduce", "gloo 0"] == (30, 10)
    assert rows["barrier", "gloo 0"] == (3, 1)
    assert rows["send", "gloo 0"] == rows["recv", "gloo 0"] == (10, 10)
    assert rows["broadcast", "gloo 1"] == (20, 10)
    assert job.ask("SELECT DISTINCT ranks FROM groups WHERE comm = 'gloo 1'") == [["[0, 1]"]]
    assert job.ask("SELECT DISTINCT peer, bytes FROM collectives WHERE op = 'send'") == [["1", "16"]]
    # Peers are ranks of the job, not of the group.
    assert job.ask("SELECT DISTINCT operation, src_rank, dst_rank FROM python.nccl_trace WHERE operation NOT IN ('all_reduce', 'barrier') "
                   "ORDER BY ALL") == [["broadcast", "1", "0"], ["broadcast", "1", "1"], ["recv", "0", "1"], ["send", "0", "1"]]
    # Where they met tells them from other jobs.
    assert job.ask("SELECT value, count(*) FROM metadata WHERE key = 'tracesmith: job' GROUP BY value") == [["file://%s:" % env["MEETING"], "3"]]
    # Losses are the same bits without us.
    plain = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, env=environment(**env), timeout=60)
    assert plain.stdout == job.out != ""


def test_parameters_without_gradients_are_named(tmp_path, needs_query):
    env = {"WORLD_SIZE": "3", "MEETING": str(tmp_path / "meeting")}
    job = Recorded(tmp_path, *Ddp(sys.executable, TRAIN, "unused", "6"), expect=1, **env)
    note = ("in step 3, backward has ended on rank 1 without gradients of 2 parameters (second.weight, second.bias): they are not reduced, "
            "and the other ranks wait. Use all parameters in the loss, or find_unused_parameters=True")
    assert job.err.count("tracesmith: " + note) == 1
    assert job.ask("SELECT rank, value FROM metadata WHERE key = 'tracesmith: parameters without gradients'") == [["1", note]]
    # The others are in flight.
    assert job.ask("SELECT rank, seq FROM collectives WHERE comm = 'gloo 0 DDP' AND ts IS NULL ORDER BY rank") == [["0", "3"], ["2", "3"]]
    verdict = job.analyze()["verdict"]
    assert verdict["rank"] == 1 and "gloo 0 DDP" in verdict["text"], verdict


def test_steps_without_a_gpu_have_no_computing_time_but_that_of_operations(tmp_path, needs_query):
    env = {"WORLD_SIZE": "2", "MEETING": str(tmp_path / "meeting")}
    job = Recorded(tmp_path, *Ddp(sys.executable, TRAIN, "ddp", "4"), flags=("--per-step", "--json"), **env)
    steps = json.loads(job.err.splitlines()[-1])["steps"]
    assert [step["step"] for step in steps] == list(range(4))
    assert {step["median_computing_ns"] for step in steps} == {step["most_computing_rank"] for step in steps} == {None}
    assert all(step["median_communicating_ns"] > 0 for step in steps[1:])


def test_forked_ranks_are_recorded(tmp_path, needs_query):
    job = Recorded(tmp_path, sys.executable, TRAIN, "fork", "5", MEETING=str(tmp_path / "meeting"))
    assert job.ask("SELECT rank, world_size FROM processes ORDER BY rank") == [["0", "2"], ["1", "2"]]
    assert job.ask("SELECT rank, count(*) FROM steps GROUP BY rank ORDER BY rank") == [["0", "5"], ["1", "5"]]


def test_an_evaluation_is_in_no_step_of_the_analysis(tmp_path, needs_query):
    env = {"WORLD_SIZE": "2", "MEETING": str(tmp_path / "meeting"), "EVALUATE": "1"}
    job = Recorded(tmp_path, *Ddp(sys.executable, TRAIN, "ddp", "9"), **env)
    (evaluated,), = job.ask("SELECT sum(dur) / 1e3 FROM events WHERE name = 'evaluation'")
    analysis = job.analyze()
    assert len(analysis["steps"]) == 9
    assert sum(part["idle_us"] for part in analysis["breakdown"]) < float(evaluated) / 2
