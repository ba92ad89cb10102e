"""Tables that a program makes: each row arrives in the trace, and SQL has the table as `python.NAME`.

A cell is a counter of one time for all cells of its row: its series is the column, and of a text "column=text". What the
columns are is metadata.
"""
from . import probe
from .probe import now

TYPES = {float: "float", int: "int", str: "str"}
TAKEN = ("trace", "ts", "node", "rank", "pid")  # every table has these
TELL_AGAIN = 1000  # rows: a ring that nobody reads forgets what was told first


class Table:
    """`columns`: names of numbers, or names with their types. A column `step` is the step of its row."""

    __slots__ = ("name", "columns", "_told", "_rows", "_last")

    def __init__(self, name, columns):
        name = str(name)
        columns = dict(columns) if hasattr(columns, "keys") else {column: float for column in columns}
        if not name or "\n" in name:
            raise ValueError("a table cannot be called %r" % name)
        for column, kind in columns.items():
            if not column or "\n" in column or "=" in column or column.lower() in TAKEN or kind not in TYPES:
                raise ValueError("table %s cannot have a column %r of type %r" % (name, column, kind))
        self.name = ("table: " + name).encode("utf-8", "replace")
        self.columns = {column: (column.encode("utf-8", "replace"), kind) for column, kind in columns.items()}
        told = "\n".join("%s %s" % (column, TYPES[kind]) for column, kind in columns.items() if column != "step")
        self._told = told.encode("utf-8", "replace")
        self._rows = 0
        self._last = 0

    def append(self, row, step_now):
        """`row`: values by column. step_now(): its step, where it has none; -1: that of the time."""
        if not row.keys() <= self.columns.keys():
            raise ValueError("the columns are " + ", ".join(self.columns))
        functions = probe.functions()
        if functions is None:
            return
        if self._rows % TELL_AGAIN == 0:
            functions.metadata(self.name, self._told)
        self._rows += 1
        step = row.get("step")
        number = step_now() if step is None else int(step)
        at = self._last = max(now(), self._last + 1)  # tells this row from the others
        for column, value in row.items():
            if value is None or column == "step":
                continue
            series, kind = self.columns[column]
            if kind is str:
                functions.counter_at(self.name, series + b"=" + str(value).encode("utf-8", "replace"), 0.0, at, number)
            else:
                functions.counter_at(self.name, series, float(value), at, number)
