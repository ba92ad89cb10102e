"""Traces: SQL in all forms, the analysis, and what notebooks show."""

import ctypes
import gc
import json
import threading
import xml.dom.minidom

import pytest

import tracesmith
from tracesmith import _arrow, _native

pytestmark = pytest.mark.usefixtures("needs_query")


@pytest.fixture(scope="module")
def trace(job):
    return tracesmith.Trace(job)


def test_rows_have_the_values_of_every_type(trace):
    sql = (
        "SELECT 1, 'ä', NULL, 2.5::DOUBLE, [1, 2, NULL], {'a': 1, 'b': 'x'}, MAP {'k': 1}, true, 1.25::DECIMAL(5,2), "
        "'ab'::BLOB, 170141183460469231731687303715884105727::HUGEINT, 18446744073709551615::UBIGINT, "
        "TIMESTAMP '2020-01-02 03:04:05', DATE '2020-01-02', INTERVAL 3 DAY, [[1], []]"
    )
    (row,) = trace.query(sql)
    assert row[:8] == (1, "ä", None, 2.5, [1, 2, None], {"a": 1, "b": "x"}, {"k": 1}, True)
    assert str(row[8]) == "1.25" and row[9:12] == (b"ab", 2**127 - 1, 2**64 - 1)
    assert [str(v) for v in row[12:]] == ["2020-01-02 03:04:05", "2020-01-02", "3 days, 0:00:00", "[[1], []]"]


def test_rows_with_null_stay_at_their_place(trace):
    sql = "SELECT i, CASE WHEN i % 3 > 0 THEN i END, CASE WHEN i % 2 = 0 THEN i % 4 = 0 END FROM range(100000) t(i)"
    rows = trace.query(sql).rows()
    assert len(rows) == 100000
    assert all(row[1] == (None if row[0] % 3 == 0 else row[0]) for row in rows)
    assert all(row[2] == (None if row[0] % 2 else row[0] % 4 == 0) for row in rows)


def test_it_agrees_with_the_command(trace, command):
    sql = "SELECT type, count(*), sum(dur), min(name) FROM events GROUP BY type ORDER BY type"
    theirs = json.loads(command("query", trace.path, sql, "--format", "json"))
    assert [[str(v) for v in row] for row in trace.query(sql)] == [[str(v) for v in row.values()] for row in theirs]


def test_every_table_of_the_schema_is_an_attribute(trace, command):
    assert {"events", "collectives", "steps", "losses"} <= set(trace.tables)
    for name in trace.tables:
        table = getattr(trace, name)
        assert table.doc and set(table.meanings) - {"launch"} <= set(table.columns) and name in dir(trace)
    assert len(trace.steps) == len(trace.steps.rows())
    with pytest.raises(AttributeError, match="no table or method 'nothing'"):
        trace.nothing


def test_wrong_sql_and_missing_files_are_told(trace, tmp_path):
    with pytest.raises(tracesmith.Error, match="syntax error"):
        trace.query("SELEC 1")
    with pytest.raises(tracesmith.Error, match="(?i)only read|read"):
        trace.query("CREATE TABLE x AS SELECT 1")
    with pytest.raises(tracesmith.Error, match="absent.sbt"):
        tracesmith.Trace(tmp_path / "absent.sbt")
    with pytest.raises(tracesmith.Error, match="out of range|Conversion"):
        trace.query("SELECT (i * 1000)::TINYINT FROM range(10) t(i)").rows()


def test_results_outlive_the_trace_and_do_not_disturb_each_other(job):
    trace = tracesmith.Trace(job)
    first, second = iter(trace.events), iter(trace.query("SELECT * FROM range(200000)"))
    next(first), next(second)
    trace.close()
    del trace
    gc.collect()
    assert sum(1 for _ in first) == 19999 and sum(1 for _ in second) == 199999

def test_a_stream_goes_to_consumers_of_arrow_as_a_capsule(trace):
    result = trace.query("SELECT 42")
    capsule = result.__arrow_c_stream__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    taken = _native.ArrowArrayStream.from_address(get(capsule, b"arrow_array_stream"))
    assert [row for row in _arrow.rows(_arrow.Stream(taken))] == [(42,)]
    del capsule
    result.__arrow_c_stream__()  # nobody takes it: it is released
    assert result.rows() == [(42,)]


def test_numpy_arrays_lie_in_arrows_memory_and_null_is_nan(trace):
    numpy = pytest.importorskip("numpy")
    sql = "SELECT i, i::DOUBLE AS x, CASE WHEN i > 0 THEN i END AS n, 'a' || i AS s FROM range(1000) t(i)"
    columns = trace.query(sql).to_numpy()
    gc.collect()
    assert columns["i"].dtype == "int64" and not columns["i"].flags.owndata and columns["i"].sum() == 499500
    assert numpy.isnan(columns["n"][0]) and columns["n"][1:].sum() == 499500 and columns["s"][7] == "a7"
    assert trace.events.to_numpy()["type"][0] in ("cpu_op", "kernel", "runtime", "annotation", "memcpy", "sync")
    assert trace.query("SELECT 1 AS a, 2 AS a WHERE false").to_numpy().keys() == {"a", "a_2"}


def test_pandas(trace):
    pytest.importorskip("pandas")
    frame = trace.events.to_pandas()
    assert len(frame) == 20000 and frame["rank"].nunique() == 32
    sums = trace.query("SELECT rank, sum(dur) AS ns FROM events GROUP BY rank ORDER BY rank").to_pandas()
    assert (frame.groupby("rank")["dur"].sum().values == sums["ns"].values).all()


def test_several_threads_ask_at_once(trace):
    answers = []
    ask = lambda n: answers.append(trace.query("SELECT sum(i) + {} FROM range(1000) t(i)".format(n)).scalar())
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert sorted(answers) == [499500 + n for n in range(8)]


def test_interrupting_ends_a_query(trace):
    over = threading.Event()

    def interrupt():
        while not over.wait(0.05):
            trace._handle.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(tracesmith.Error, match="(?i)cancel|interrupt"):
        trace.query("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3").rows()
    over.set(), thread.join()


def test_the_analysis_is_that_of_the_command(trace, command):
    analysis = trace.analyze()
    assert analysis.to_dict() == json.loads(command("analyze", "--json", trace.path))
    assert analysis.verdict.rank == 3 and "rank 3" in repr(analysis)
    assert "rank 3" in analysis._repr_html_()


def test_the_difference_is_that_of_the_command(trace, command, tmp_path):
    other = str(tmp_path / "other.sbt")
    command("synth", "-o", other, "--events", "20000")
    diff = trace.diff(other)
    assert diff.to_dict() == json.loads(command("diff", "--json", trace.path, other))
    assert diff.verdict in diff._repr_html_() and trace.diff(tracesmith.Trace(other)) == diff


def test_info_and_report(trace, tmp_path):
    assert trace.info().ranks == list(range(32))
    page = trace.report(tmp_path / "report.html")
    assert "rank 3" in open(page, encoding="utf-8").read()
    with pytest.raises(tracesmith.Error):
        trace.report("/nowhere/report.html")


def test_a_notebook_shows_traces_results_and_timelines(trace, tmp_path):
    assert "simulated" in trace._repr_html_() and "<b>32</b> ranks" in trace._repr_html_()
    shown = trace.query("SELECT '<b>' AS a, NULL AS b FROM range(30)")
    assert "&lt;b&gt;" in shown._repr_html_() and "first 20 rows" in shown._repr_html_()
    assert repr(trace.query("SELECT 1 AS one, 'x' AS name")) == "one  name\n  1  x"
    timeline = trace.timeline(step=3, ranks=[2, 3])
    picture = xml.dom.minidom.parseString(timeline._repr_svg_())
    texts = [t.firstChild.data for t in picture.getElementsByTagName("text")]
    assert {"rank 2", "rank 3", "communication", "simulated data"} <= set(texts) and "rank 4" not in texts
    assert open(timeline.save(tmp_path / "t.svg"), encoding="utf-8").read() == timeline.svg
    with pytest.raises(tracesmith.Error, match="no step 999"):
        trace.timeline(step=999)


def test_damage_is_noted(job, tmp_path):
    data = bytearray(open(job, "rb").read())
    middle = len(data) // 2
    data[middle : middle + 20000] = b"\xff" * 20000
    path = tmp_path / "damaged.sbt"
    path.write_bytes(data)
    trace = tracesmith.Trace(path)
    assert any("damaged" in note for note in trace.notes()) and "damaged" in trace._repr_html_()


def test_the_timeline_puts_nodes_on_one_clock(trace):
    """Ranks of nodes whose clocks are seconds apart are drawn in the same step."""
    picture = xml.dom.minidom.parseString(trace.timeline(ranks=[0, 31]).svg)
    titles = [r for r in picture.getElementsByTagName("rect") if r.getElementsByTagName("title")]
    lanes = {r.getAttribute("y") for r in titles}
    assert len(lanes) == 2
