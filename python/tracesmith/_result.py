"""Results of SQL: for pandas, polars, pyarrow and NumPy where they are installed, and as plain Python where not."""

import html
import itertools
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from tracesmith import _arrow

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

_SHOWN = 20  # rows that a notebook or the prompt shows


class Result:
    """What a statement gives. Rows are read as they are asked for; every conversion reads the result anew.

    Anything that knows Arrow's C stream interface takes a result as it is: ``pyarrow.table(result)``,
    ``polars.DataFrame(result)``, ``duckdb.from_arrow(result)``.

    >>> result = trace.query("SELECT rank, count(*) AS events FROM events GROUP BY rank ORDER BY rank LIMIT 2")
    >>> result.columns
    ['rank', 'events']
    >>> [rank for rank, events in result]
    [0, 1]
    """

    def __init__(self, sql: str, run: Callable[[str], _arrow.Stream], now: bool = True) -> None:
        self.sql = sql
        self._run = run
        self._first = run(sql) if now else None  # type: Optional[_arrow.Stream]
        self._columns = [f.name for f in self._first.fields] if self._first else None  # type: Optional[List[str]]

    def _stream(self) -> _arrow.Stream:
        stream, self._first = self._first or self._run(self.sql), None
        self._columns = [f.name for f in stream.fields]
        return stream

    @property
    def columns(self) -> List[str]:
        """The names of the columns."""
        if self._columns is None:
            self._first = self._stream()
        assert self._columns is not None
        return list(self._columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._stream().capsule()

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        return _arrow.rows(self._stream())

    def rows(self) -> List[Tuple[Any, ...]]:
        """All rows as tuples of Python's own values; NULL is None."""
        return list(self)

    def to_dicts(self) -> List[Dict[str, Any]]:
        """All rows as dictionaries."""
        rows = self.rows()
        return [dict(zip(self.columns, row)) for row in rows]

    def scalar(self) -> Any:
        """The first column of the first row; None if there is no row.

        >>> trace.query("SELECT 6 * 7").scalar()
        42
        """
        for row in self:
            return row[0]
        return None

    def to_numpy(self) -> "Dict[str, numpy.ndarray[Any, Any]]":
        """A NumPy array for each column, by name. Columns of numbers without NULL lie in Arrow's memory, where the result
        is one batch; with NULL they are float64 and NaN."""
        import numpy

        stream = self._stream()
        return dict(zip(_unique([f.name for f in stream.fields]), _arrow.numpy_columns(stream, numpy)))

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas DataFrame."""
        import pandas

        try:
            import pyarrow  # noqa: F401
        except ImportError:
            return pandas.DataFrame(self.to_numpy(), copy=False)
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """A polars DataFrame."""
        import polars

        return polars.DataFrame(self)

    def to_arrow(self) -> "pyarrow.Table":
        """A pyarrow Table."""
        import pyarrow

        if hasattr(pyarrow.RecordBatchReader, "from_stream"):
            return pyarrow.RecordBatchReader.from_stream(self).read_all()
        stream = self._stream()  # before pyarrow 15
        table = pyarrow.RecordBatchReader._import_from_c(stream.address()).read_all()
        return table

    def _head(self) -> Tuple[List[Tuple[Any, ...]], bool]:
        """The first rows, and whether there are more."""
        rows = list(itertools.islice(self, _SHOWN + 1))
        return rows[:_SHOWN], len(rows) > _SHOWN

    def __repr__(self) -> str:
        rows, more = self._head()
        cells = [self.columns] + [["NULL" if v is None else str(v)[:60] for v in row] for row in rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        right = [all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(self.columns))]
        lines = [
            "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)).rstrip() for row in cells
        ]
        return "\n".join(lines + (["..."] if more else []))

    def _repr_html_(self) -> str:
        rows, more = self._head()
        out = ["<table><thead><tr>"]
        out += ["<th>{}</th>".format(html.escape(name)) for name in self.columns]
        out.append("</tr></thead><tbody>")
        for row in rows:
            out.append("<tr>")
            for value in row:
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                text = "<i>NULL</i>" if value is None else html.escape(str(value)[:200])
                out.append("<td style=\"text-align:{}\">{}</td>".format("right" if number else "left", text))
            out.append("</tr>")
        out.append("</tbody></table>")
        if more:
            out.append("<p>The first {} rows</p>".format(_SHOWN))
        return "".join(out)


class Table(Result):
    """A table of a trace, read when it is used. ``doc`` says what a row is, ``meanings`` what its columns mean.

    >>> trace.steps.doc
    'one training step of one rank'
    """

    def __init__(self, info: Dict[str, Any], run: Callable[[str], _arrow.Stream]) -> None:
        super().__init__("SELECT * FROM " + info["name"], run, now=False)
        self.name = info["name"]  # type: str
        self.doc = info["doc"]  # type: str
        self.meanings = {column["name"]: column["doc"] for column in info["columns"]}

    def __len__(self) -> int:
        count = Result("SELECT count(*) FROM " + self.name, self._run).scalar()
        assert isinstance(count, int)
        return count

    def where(self, condition: str) -> Result:
        """The rows for which an SQL condition holds.

        >>> len(trace.events.where("rank = 3 AND type = 'memset'").rows())
        0
        """
        return Result("{} WHERE {}".format(self.sql, condition), self._run)


def _unique(names: List[str]) -> List[str]:
    """Names that a dictionary can have: the second of a name gets a number."""
    seen = {}  # type: Dict[str, int]
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else "{}_{}".format(name, seen[name]))
    return out
