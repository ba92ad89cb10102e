"""Traces: SQL over them, what the analysis finds, what changed between two, and pictures for notebooks."""

import html
import json
import os
import subprocess
import threading
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar, Union

from tracesmith import _arrow, _native, _places
from tracesmith._drawing import timeline_svg
from tracesmith._native import Error, Record
from tracesmith._result import Result, Table

T = TypeVar("T")
PathLike = Union[str, "os.PathLike[str]"]


class Trace:
    """A trace file. Each of its tables is an attribute; ``query`` runs SQL (DuckDB's dialect) over them.

    >>> trace = Trace("job.sbt")
    >>> trace.tables[:3]
    ['events', 'collectives', 'proxy_ops']
    >>> len(trace.events)
    20000
    >>> busiest = trace.query("SELECT rank, sum(dur) AS ns FROM events WHERE type = 'kernel' GROUP BY rank ORDER BY ns DESC")
    >>> busiest.rows()[0][0]
    3

    ``memory`` limits what SQL may use ("2GB"; half of the machine's by default), ``threads`` the cores.
    """

    def __init__(self, path: PathLike, memory: str = "", threads: int = 0) -> None:
        self.path = os.fspath(path)
        config = {"path": self.path, "memory": memory, "threads": threads}
        self._handle = _native.Handle(_native.library(), "Trace", config)
        self._tables = {table["name"]: table for table in _native.library().description["tables"]}

    @property
    def tables(self) -> List[str]:
        """The names of the tables."""
        return list(self._tables)

    def __getattr__(self, name: str) -> Table:
        info = self.__dict__.get("_tables", {}).get(name)
        if info is None:
            raise AttributeError("a trace has no table or method {!r}; Trace.tables lists its tables".format(name))
        return Table(info, self._run)

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(self._tables))

    def _run(self, sql: str) -> _arrow.Stream:
        return _arrow.Stream(_interruptible(lambda: self._handle.query(sql), self._handle.interrupt))

    def query(self, sql: str) -> Result:
        """Runs one statement, which can only read. Ctrl-C ends it.

        >>> trace.query("SELECT DISTINCT op FROM collectives ORDER BY op").rows()
        [('all_gather',), ('reduce_scatter',)]
        """
        return Result(sql, self._run)

    def info(self) -> Record:
        """What is in the trace: ranks, nodes, tables, losses, damage, as ``tracesmith info --json`` has it.

        >>> trace.info().simulated
        True
        """
        return Record(json.loads(_command("info", "--json", self.path)))

    def analyze(self, comm_rules: str = "") -> "Analysis":
        """Who made the others wait, and why: what ``tracesmith analyze --json`` has, by attribute.

        >>> trace.analyze().verdict.cause
        'clock'
        """
        return Analysis(_interruptible(lambda: self._handle.call("analyze", {"comm_rules": comm_rules})))

    def diff(self, other: "Union[Trace, PathLike]", rank: Optional[int] = None, step: Optional[int] = None) -> "Diff":
        """What changed from this trace to the other, and which of the changes are more than chance.

        >>> trace.diff(trace).parts[0].significant
        False
        """
        after = other.path if isinstance(other, Trace) else os.fspath(other)
        return Diff(_interruptible(lambda: self._handle.call("diff", after, {"rank": rank, "step": step})))

    def report(self, path: PathLike) -> str:
        """Writes the analysis as one self-contained HTML page; returns its path."""
        _command("report", "--json", self.path, "-o", os.fspath(path))
        return os.fspath(path)

    def timeline(
        self,
        step: Optional[int] = None,
        ranks: Optional[List[int]] = None,
        start: Optional[int] = None,
        end: Optional[int] = None,
    ) -> "Timeline":
        """A picture of what the GPUs did: in a step (the middle one by default), or from ``start`` to ``end`` in ns of the
        reference clock.

        >>> trace.timeline(step=3, ranks=[2, 3]).svg[:4]
        '<svg'
        """
        return Timeline(timeline_svg(self, step, ranks, start, end))

    def notes(self) -> List[str]:
        """What readers of any answer must know: that data is simulated, that records were lost or parts are damaged.

        >>> trace.notes()
        ['simulated data']
        """
        return _notes(self.info())

    def close(self) -> None:
        """Closes the file. Results that are being read stay valid."""
        self._handle.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Trace({!r})".format(self.path)

    def _repr_html_(self) -> str:
        info = self.info()
        facts = [
            ("ranks", len(info.ranks)),
            ("nodes", len(info.nodes)),
            ("events", sum(t.rows for t in info.tables if t.name == "events")),
            ("lost records", sum(loss.count for loss in info.losses)),
        ]
        cells = "".join("<td><b>{:,}</b> {}</td>".format(count, name) for name, count in facts)
        notes = "".join("<p>Note: {}</p>".format(html.escape(note)) for note in _notes(info))
        return "<p><b>{}</b></p><table><tr>{}</tr></table>{}".format(
            html.escape(os.path.basename(self.path)), cells, notes
        )


def _notes(info: Record) -> List[str]:
    notes = ["simulated data"] if info.simulated else []
    lost = sum(loss.count for loss in info.losses)
    if lost:
        notes.append("{:,} {} lost: see the table losses".format(lost, "record was" if lost == 1 else "records were"))
    return notes + ["damaged: {} ({} bytes at {})".format(d.what, d.bytes, d.offset) for d in info.damage]


class Analysis(Record):
    """What ``analyze`` found. ``verdict`` says who made the others wait; ``blame``, ``links``, ``steps``, ``collectives``,
    ``kernels`` and ``critical_path`` are the evidence. docs/analysis.md describes every field."""

    verdict: Record
    blame: List[Record]
    steps: List[Record]

    def __repr__(self) -> str:
        return "Analysis({!r})".format(self.verdict.text)

    def _repr_html_(self) -> str:
        verdict = self.verdict
        color = {"none": "#3aa6a0", "unknown": "#d9a514"}.get(verdict.kind, "#d64545")
        out = ['<div style="border-left:4px solid {};padding-left:12px"><b>{}</b>'.format(color, html.escape(verdict.text))]
        if verdict.next:
            out.append("<p>What to do: {}</p>".format(html.escape(verdict.next)))
        out += ["<p>Also: {}</p>".format(html.escape(text)) for text in verdict.also]
        out.append("</div>")
        if self.blame:
            out.append("<table><tr><th>rank</th><th>node</th><th>others waited</th><th>cause</th><th>evidence</th></tr>")
            for blame in self.blame[:8]:
                cells = (blame.rank, blame.node, "{:.1f} ms".format(blame.cost_us / 1000), blame.cause, blame.evidence)
                texts = ("" if cell is None else html.escape(str(cell)) for cell in cells)
                out.append("<tr>{}</tr>".format("".join("<td>{}</td>".format(text) for text in texts)))
            out.append("</table>")
        return "".join(out)


class Diff(Record):
    """What changed between two traces. ``verdict`` is a sentence; ``parts`` says which parts of a step changed."""

    verdict: str
    parts: List[Record]

    def __repr__(self) -> str:
        return "Diff({!r})".format(self.verdict)

    def _repr_html_(self) -> str:
        out = ["<b>{}</b>".format(html.escape(self.verdict)), "<table><tr><th>of a step</th><th>rank</th><th>before</th>"]
        out.append("<th>after</th><th>change</th></tr>")
        for part in [p for p in self.parts if p.significant][:12]:
            change = "" if part.change_pct is None else "{:+.1f} %".format(part.change_pct)
            cells = (part.what, "all" if part.rank is None else part.rank, part.before_us, part.after_us, change)
            out.append("<tr>{}</tr>".format("".join("<td>{}</td>".format(html.escape(str(c))) for c in cells)))
        out.append("</table>")
        return "".join(out)


class Timeline:
    """A picture, as SVG in ``svg``. A notebook shows it; ``save`` writes it to a file."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: PathLike) -> str:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)
        return os.fspath(path)

    def _repr_svg_(self) -> str:
        return self.svg


def _command(*arguments: str) -> str:
    """What a command of ``tracesmith`` prints."""
    done = subprocess.run(
        [_places.command()] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Error(lines[-1].replace("tracesmith: ", "", 1) if lines else "tracesmith {} failed".format(arguments[0]))
    return done.stdout


def _interruptible(work: Callable[[], T], interrupt: Optional[Callable[[], None]] = None) -> T:
    """Runs work in a thread, so that Ctrl-C is seen while it runs: it is then asked to stop, or left to end alone."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = []  # type: List[T]
    failed = []  # type: List[BaseException]

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # told in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, name="tracesmith", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        if interrupt:
            interrupt()
            thread.join()
        raise
    if failed:
        raise failed[0]
    return done[0]
