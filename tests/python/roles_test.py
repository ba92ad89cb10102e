"""Processes that say what they are for."""
import sys

from torch_jobs import Recorded

MARKS = "import tracesmith\nwith tracesmith.range('work'): pass\n"


def test_roles_that_count_their_ranks_alike_are_told_apart(tmp_path, needs_query):
    each = "RANK=0 TRACESMITH_ROLE=%s " + sys.executable + " -c \"$MARKS\""
    job = Recorded(tmp_path, "sh", "-c", " && ".join(each % role for role in ("trainer", "rollout")), MARKS=MARKS)
    assert job.ask("SELECT role, rank FROM processes WHERE role IS NOT NULL ORDER BY ts_start") == [["trainer", "0"], ["rollout", ""]]
    assert job.ask("SELECT rank, count(*) FROM events WHERE name = 'work' GROUP BY rank ORDER BY rank") == [["0", "1"], ["", "1"]]
    assert sorted(r["role"] for r in job.analyze()["roles"]) == ["rollout", "trainer"]


def test_a_program_can_say_its_role_itself(tmp_path, needs_query):
    code = MARKS + "tracesmith.metadata('role', 'reward')"
    job = Recorded(tmp_path, sys.executable, "-c", code)
    assert job.ask("SELECT role FROM processes") == [["reward"]]
    assert job.ask("SELECT value FROM metadata WHERE key = 'role'") == [["reward"]]


def test_the_command_line_can_say_the_role(tmp_path, needs_query):
    job = Recorded(tmp_path, sys.executable, "-c", MARKS, flags=("--role", "evaluator"))
    assert job.ask("SELECT role FROM processes") == [["evaluator"]]
