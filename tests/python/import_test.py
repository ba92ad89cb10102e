"""Imports of what other tools write, made here in the layouts they have."""

import gzip
import json
import os
import pickle
import sqlite3
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
    mine.append(entry(10, "nccl:barrier", duration_ms=0.25))
    (tmp_path / "dump").write_bytes(pickle.dumps(dump(mine), 2))
    trace = str(tmp_path / "out.sbt")
    command("import", str(tmp_path / "dump"), "--rank", "1", "--node", "n7", "-o", trace)
    found = rows(trace, "SELECT op, peer, seq, node, rank FROM collectives ORDER BY ts_enqueue")
    assert [f["op"] for f in found] == ["all_gather", "reduce_scatter", "all_to_all", "broadcast", "all_reduce", "send", "all_reduce", "barrier"]
    assert found[5] == {"op": "send", "peer": 3, "seq": 5, "node": "n7", "rank": 1}
    assert rows(trace, "SELECT dur FROM collectives WHERE op = 'barrier'") == [{"dur": 250000}]
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


def nsys_report(path):
    """A report as `nsys export --type sqlite` of 2024 writes it: the tables and columns that matter."""
    db = sqlite3.connect(str(path))
    db.executescript("""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
        CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, uuid TEXT, totalMemory INTEGER, smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER);
        CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
        CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
        CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
    """)
    thread = (4711 << 24) | 4712
    names = ["void gemm<float>(float*)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
             "cudaLaunchKernel_v7000", "train", "step 1"]
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (BEGIN,))
    db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, '', 'Hostname', 0, 'node7')")
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 1, 'NVIDIA H100', '0000:1b:00.0', 'GPU-1', 85899345920, 132, 9, 0)")
    db.execute("INSERT INTO PROCESSES VALUES (?, 4711, 'python3')", (4711 << 24,))
    db.execute("INSERT INTO ThreadNames VALUES (3, 0, ?)", (thread,))
    kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 1, 1, 7, ?, ?, ?, 0, 64, 1, 1, 128, 1, 1, 32, 0, 1024)"
    db.execute(kernel, (2000, 5000, 11, 4711 << 24, 0))
    db.execute(kernel, (6000, 9000, 12, 4711 << 24, 1))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1000, 1500, 1, 1, 7, 10, ?, 4096, 1)", (4711 << 24,))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1800, 1900, 0, ?, 11, 2, 0)", (thread,))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (NULL, NULL, 0, ?, 13, 2, 0)", (thread,))
    db.execute("INSERT INTO NVTX_EVENTS VALUES (500, 9500, 59, NULL, 4, ?)", (thread,))
    db.execute("INSERT INTO NVTX_EVENTS VALUES (600, NULL, 34, 'here', NULL, ?)", (thread,))
    db.executemany("INSERT INTO OSRT_API VALUES (1, 2, 3, 4)", [()] * 3)
    db.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 2, '17 CUPTI records were dropped')")
    db.commit()
    db.close()


def test_a_report_of_nsight_systems(tmp_path, command, rows):
    nsys_report(tmp_path / "rank3.sqlite")
    trace = str(tmp_path / "out.sbt")
    said = command("import", str(tmp_path), "-o", trace)
    assert "1 file" in said and "6 events" in said
    found = rows(trace, "SELECT type, name, ts - {} AS at, dur, node, rank, pid, tid, device, stream, correlation, bytes "
                        "FROM events ORDER BY ts".format(BEGIN))
    assert [(f["type"], f["name"][:20], int(f["at"]), f["dur"]) for f in found] == [
        ("annotation", "step 1", 500, 9000), ("marker", "here", 600, None), ("memcpy", "Memcpy HtoD", 1000, 500),
        ("runtime", "cudaLaunchKernel", 1800, 100), ("kernel", "void gemm<float>(flo", 2000, 3000),
        ("kernel", "ncclDevKernel_AllRed", 6000, 3000)]
    assert all(f["node"] == "node7" and f["rank"] == 3 and f["pid"] == 4711 for f in found)
    assert found[3]["tid"] == 4712 and found[4]["device"] == 1 and found[4]["stream"] == 7 and found[2]["bytes"] == 4096
    assert rows(trace, "SELECT grid_x, block_x, registers, shared_dynamic FROM events WHERE name LIKE 'void%'") == [
        {"grid_x": 64, "block_x": 128, "registers": 32, "shared_dynamic": 1024}]
    assert rows(trace, "SELECT op, algo, proto, rank, dur FROM collectives") == [
        {"op": "all_reduce", "algo": "ring", "proto": "LL", "rank": 3, "dur": 3000}]
    assert rows(trace, "SELECT device, name, sms FROM devices") == [{"device": 1, "name": "NVIDIA H100", "sms": 132}]
    assert rows(trace, "SELECT cause, count FROM losses ORDER BY cause") == [
        {"cause": "lost by nsys", "count": 1}, {"cause": "unreadable row", "count": 1}]
    assert "2 kernels" in command("info", trace) or "kernel" in command("info", "--full", trace)


def test_a_file_of_sqlite_that_is_no_report_is_refused(tmp_path):
    db = sqlite3.connect(str(tmp_path / "other.sqlite"))
    db.execute("CREATE TABLE t (a INTEGER)")
    db.commit()
    db.close()
    (tmp_path / "torn.sqlite").write_bytes((tmp_path / "other.sqlite").read_bytes()[:50])
    for name, why in [("other", "no kernels or ranges of Nsight Systems"), ("torn", "")]:
        done = subprocess.run([_places.command(), "import", str(tmp_path / (name + ".sqlite")), "-o", str(tmp_path / "out.sbt")],
                              stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 1 and why in done.stderr and len(done.stderr.splitlines()) == 1


def test_what_the_inspector_of_nccl_writes(tmp_path, command, rows):
    def line(number, comm="0xabc", rank=5, ranks=8, **perf):
        one = {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": 100,
               "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 10.4, "coll_busbw_gbs": 18.3}
        one.update(perf)
        return json.dumps({"header": {"id": comm, "rank": rank, "n_ranks": ranks, "nnodes": 1},
                           "metadata": {"inspector_output_format_version": "v4.0", "hostname": "node7", "pid": 48,
                                        "dump_timestamp_us": BEGIN // 1000}, "coll_perf": one}, separators=(",", ":"))
    p2p = json.dumps({"header": {"id": "0xabc"}, "metadata": {}, "p2p_perf": {"p2p": "Send"}}, separators=(",", ":"))
    lines = [line(1), line(2, coll="ReduceScatter", coll_exec_time_us=61.5, coll_algo="RING", coll_proto="LL128"),
             line(7, comm="0xdef", rank=1, ranks=2), p2p, '{"header":{"id"']
    (tmp_path / "node7_pid48.log").write_text("\n".join(lines))
    trace = str(tmp_path / "out.sbt")
    said = command("import", str(tmp_path / "node7_pid48.log"), "-o", trace)
    assert "3 collectives" in said and "rank 5" in said
    assert rows(trace, "SELECT op, comm, nccl_seq, seq, ts, dur, bytes, group_rank, group_size, node, rank, pid, algo, proto "
                       "FROM collectives WHERE op = 'reduce_scatter'") == [
        {"op": "reduce_scatter", "comm": "0xabc", "nccl_seq": 2, "seq": None, "ts": None, "dur": 61500, "bytes": 1 << 20,
         "group_rank": 5, "group_size": 8, "node": "node7", "rank": 5, "pid": 48, "algo": "RING", "proto": "LL128"}]
    assert rows(trace, "SELECT round(busbw_gbps(op, bytes, group_size, dur), 3) AS gbps FROM collectives WHERE nccl_seq = 1") == [
        {"gbps": 18.35}]
    assert rows(trace, "SELECT cause, count FROM losses ORDER BY cause") == [
        {"cause": "bad line", "count": 1}, {"cause": "record not read", "count": 1}]
    assert "0xabc" in command("playbook", "network", trace)
    command("info", "--full", trace)
