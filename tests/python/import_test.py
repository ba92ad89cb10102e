"""Imports of what other tools write, made here in the layouts they have."""

import gzip
import json
import os
import pickle
import subprocess

import pytest

from tracesmith import _places

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def entry(number, name="nccl:all_reduce", state="completed", **more):
    """An entry of torch's flight recorder, version 2.4 of its dumps."""
    one = {
        "frames": [{"name": "step", "filename": "train.py", "line": 12}],
        "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number + 1,
        "p2p_seq_id": 0, "op_id": number + 1, "profiling_name": name, "time_created_ns": BEGIN + number * SECOND,
        "input_sizes": [[1024, 256]], "input_dtypes": ["BFloat16"], "output_sizes": [[1024, 256]],
        "output_dtypes": ["BFloat16"], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
    }
    if state != "scheduled":
        one["time_discovered_started_ns"] = one["time_created_ns"] + 1000
    if state == "completed":
        one["time_discovered_completed_ns"] = one["time_created_ns"] + 5000
    one.update(more)
    return one


def dump(entries, ranks=4):
    return {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
            "pg_status": {"0": {"last_enqueued_collective": 3}}, "entries": entries, "nccl_comm_state": {}}


@pytest.fixture
def rows(command, needs_query):
    def ask(trace, sql):
        return json.loads(command("query", trace, "--format", "json", sql))
    return ask


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_flight_recorder_dumps_say_who_hangs(tmp_path, command, rows, protocol):
    for rank in range(4):
        mine = [entry(i) for i in range(10, 13)] + ([] if rank == 2 else [entry(13, state="started")])
        (tmp_path / "nccl_trace_rank_{}".format(rank)).write_bytes(pickle.dumps(dump(mine), protocol))
    trace = str(tmp_path / "hang.sbt")
    said = command("import", str(tmp_path), "-o", trace)
    assert "4 files" in said and "40 × overwritten" in said
    assert rows(trace, "SELECT rank, count(*) AS n, max(seq) AS last FROM collectives GROUP BY rank ORDER BY rank") == [
        {"rank": r, "n": 3 if r == 2 else 4, "last": 13 if r == 2 else 14} for r in range(4)]
    assert rows(trace, "SELECT DISTINCT op, comm, bytes, elements, dtype, group_size, dur FROM collectives WHERE seq = 12") == [
        {"op": "all_reduce", "comm": "0", "bytes": 524288, "elements": 262144, "dtype": "BFloat16", "group_size": 4, "dur": 4000}]
    assert rows(trace, "SELECT count(*) AS n FROM collectives WHERE seq = 14 AND dur IS NULL") == [{"n": 3}]
    assert rows(trace, "SELECT sum(count)::INT AS n FROM losses WHERE cause = 'overwritten'") == [{"n": 40}]
    assert "train.py:12" in rows(trace, "SELECT args FROM collectives LIMIT 1")[0]["args"]
    assert "Rank 2 has not reached operation 14" in command("playbook", "hang", trace)


def test_flight_recorder_names_of_operations_are_ours(tmp_path, command, rows):
    names = ["_all_gather_base", "_reduce_scatter_base", "all_to_all", "broadcast", "all_reduce_coalesced"]
    mine = [entry(i, "nccl:" + name) for i, name in enumerate(names)]
    mine.append(entry(7, "nccl:send 1->3", is_p2p=True, p2p_seq_id=5))
    mine.append(entry(8, state="completed", time_discovered_started_ns=None, time_discovered_completed_ns=None))
    mine.append({"record_id": 9})
    (tmp_path / "dump").write_bytes(pickle.dumps(dump(mine), 2))
    trace = str(tmp_path / "out.sbt")
    command("import", str(tmp_path / "dump"), "--rank", "1", "--node", "n7", "-o", trace)
    found = rows(trace, "SELECT op, peer, seq, node, rank FROM collectives ORDER BY ts_enqueue")
    assert [f["op"] for f in found] == ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "all_reduce", "send", "all_reduce"]
    assert found[5] == {"op": "send", "peer": 3, "seq": 5, "node": "n7", "rank": 1}
    assert rows(trace, "SELECT cause, count FROM losses ORDER BY cause") == [
        {"cause": "end not known", "count": 1}, {"cause": "unknown entry", "count": 1}]


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/tracesmith-pickle-was-run",)


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    for i, (content, why) in enumerate([
            (pickle.dumps({"entries": [Evil()]}, 2), "run code"),
            (pickle.dumps({"entries": [Evil()]}, 4), "no plain data"),
            (pickle.dumps({"nothing": 1}, 2), "no dump"),
            (pickle.dumps(dump([entry(0)]), 2)[:-40], "ends too early"),
            (b"\x80\x02]q\x00(h\x00e.", "no dump"),
            (b"\x80\x02u.", "do not fit together")]):
        path = tmp_path / "evil{}".format(i)
        path.write_bytes(content)
        done = subprocess.run([_places.command(), "import", str(path), "-o", str(tmp_path / "out.sbt")],
                              stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert not (tmp_path / "out.sbt").exists()
    assert not os.path.exists("/tmp/tracesmith-pickle-was-run")


def test_a_folder_as_tensorboard_has_it(tmp_path, command, rows):
    run = tmp_path / "logs" / "plugins" / "profile" / "2026_01_31"
    run.mkdir(parents=True)
    for rank in range(2):
        event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
        with gzip.open(str(run / "node{}.123.pt.trace.json.gz".format(rank)), "wt") as f:
            json.dump({"distributedInfo": {"rank": rank}, "traceEvents": [event]}, f)
    trace = str(tmp_path / "out.sbt")
    assert "2 files" in command("import", str(tmp_path / "logs"), "-o", trace)
    assert rows(trace, "SELECT count(DISTINCT rank) AS n FROM events") == [{"n": 2}]
