"""Memory that grows or runs out is named with the line that holds it. The allocator is a stand-in."""

import json
import os
import signal
import sys

import pytest
from torch_jobs import Recorded, needs_torch

pytestmark = needs_torch
JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "memory_job.py")


def line(marked):
    with open(JOB) as file:
        return "memory_job.py:%d" % next(i for i, text in enumerate(file, 1) if marked in text and "allocate" in text)


@pytest.fixture
def job(tmp_path, needs_query):
    return lambda kind, steps, **options: Recorded(tmp_path, sys.executable, JOB, kind, str(steps), **options)


def test_growth_is_a_leak_with_its_line(job):
    leak = job("leak", 64)
    notes = [note for note in leak.analyze()["notes"] if note.startswith("memory of ")]
    assert len(notes) == 1, notes
    assert "grows by 2.097 MB per step since step " in notes[0]
    assert notes[0].endswith("2.097 MB per step are kept from " + line("# LEAK"))
    # Lines are recorded in the first steps, and for some steps when memory has grown.
    assert leak.out.split("\n")[0] == "['state', None, 'state', None]"
    assert leak.ask("SELECT round(bytes_per_step / 1048576) FROM python.memory_growth") == [["2.0"]]
    assert leak.ask("SELECT count(*) FROM python.torch_trace WHERE stage = 'post step' AND allocated >= 100") == [["60"]]


def test_a_leak_that_was_looked_at_twice_is_told_once(job):
    leak = job("leak", 200)
    assert leak.ask("SELECT count(*) FROM python.memory_growth") == [["2"]]
    (note,) = [note for note in leak.analyze()["notes"] if note.startswith("memory of ")]
    assert note.count("per step are kept from") == 1, note


def test_a_leak_is_seen_though_hooks_are_off(job):
    leak = job("leak", 64, TRACESMITH_BUDGET_PPM="1")
    assert "phases are not recorded from step" in leak.err
    assert [note for note in leak.analyze()["notes"] if " grows by 2.097 MB per step since step " in note]


def test_memory_that_stays_is_no_leak(job):
    notes = job("steady", 40).analyze()["notes"]
    assert not [note for note in notes if "memory" in note], notes


def test_a_program_that_records_allocations_itself_is_left_alone(job):
    assert job("own", 6).out == "['state', 'all']\n"


def test_out_of_memory_says_what_was_alive(job):
    out = job("out", 9, expect=3)
    (note,) = [note for note in out.analyze()["notes"] if "out of memory" in note]
    assert " ran out of memory in step 5 at memory_job.py:" in note
    assert "146.8 MB of 209.7 MB were allocated, 52.43 MB more were wanted; the largest: 104.9 MB from memory_job.py:" in note
    assert note.endswith(", 2 × 20.97 MB of unknown origin")
    assert out.ask("SELECT step, wanted, total FROM python.out_of_memory") == [["5", "52428800", "209715200"]]
    assert out.ask("SELECT sum(blocks), sum(bytes) FROM python.memory_held") == [["3", str(140 << 20)]]
    # `info` says it in one line, with the largest of what was alive.
    (said,) = [text for text in out.run("info").split("\n") if "out of memory" in text]
    assert said.startswith("memory      ") and said.endswith("; the largest: 104.9 MB from " + line("100 * MIB"))
    (told,) = json.loads(out.run("info", "--json"))["out_of_memory"]
    assert told["step"] == 5 and told["held"][0]["line"] == line("100 * MIB")


@pytest.mark.parametrize("flags", [(), ("--flight", "60")])
def test_what_was_alive_outlives_a_process_that_is_killed(job, flags):
    killed = job("killed", 9, expect=128 + signal.SIGKILL, flags=flags)
    assert killed.ask("SELECT sum(blocks), sum(bytes) FROM python.memory_held") == [["3", str(140 << 20)]]
    assert " ran out of memory in step 5 at memory_job.py:" in killed.run("info")
