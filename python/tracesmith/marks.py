"""Marks in your own code: steps, ranges, counters, tables and facts about the process.

Under `tracesmith run` they are in the trace. Without it, each call is a test of one variable.

>>> from tracesmith import marks
>>> for i in (0, 1, 2):
...     with marks.step(i):
...         with marks.range("load batch"):
...             pass
...         marks.counter("loss", 0.5)
"""
import functools
import sys
from typing import Any, Callable, Iterable, Mapping, Optional, Type, TypeVar, Union

from .hooks import probe as _probe
from .hooks import tables as _tables

__all__ = ["step", "step_end", "range", "counter", "log", "table", "metadata", "recording"]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def recording() -> bool:
    """Whether anybody records these marks.

    >>> isinstance(recording(), bool)
    True
    """
    return _probe.functions() is not None


class step:
    """Step `number` begins now, and the one before it ends.

    It ends with the next step, with `step_end()`, or with the `with` block.

    >>> with step(12):
    ...     pass
    """

    __slots__ = ()

    def __init__(self, number: int) -> None:
        functions = _probe.functions()
        if functions is not None:
            functions.step_begin(number)

    def __enter__(self) -> "step":
        return self

    def __exit__(self, *_: Any) -> None:
        step_end()


def step_end() -> None:
    """The step that is open ends now.

    >>> step_end()
    """
    functions = _probe.functions()
    if functions is not None:
        functions.step_end()


class range:  # noqa: A001 (its name in the C API, too)
    """A named part of the program: as a `with` block, or as a decorator.

    >>> with range("load batch"):
    ...     pass
    >>> @range("tokenize")
    ... def tokenize(text):
    ...     return text.split()
    >>> tokenize("a b")
    ['a', 'b']
    """

    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = str(name).encode("utf-8", "replace")
        self._open = None

    def __enter__(self) -> "range":
        self._open = _probe.functions()
        if self._open is not None:
            self._open.range_begin(self._name)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._open is not None:
            self._open.range_end()
            self._open = None

    def __call__(self, function: _Function) -> _Function:
        name = self._name.decode("utf-8", "replace")

        @functools.wraps(function)
        def marked(*arguments: Any, **named: Any) -> Any:
            with range(name):
                return function(*arguments, **named)

        return marked  # type: ignore[return-value]


def counter(name: str, value: float) -> None:
    """The value of a counter of yours, now.

    >>> counter("loss", 0.25)
    """
    functions = _probe.functions()
    if functions is not None:
        functions.counter(str(name).encode("utf-8", "replace"), float(value))


def _step_now() -> int:
    """The step that the hooks of torch are in, or have just ended; -1: the time tells."""
    training = getattr(sys, "_tracesmith_training", None)
    return training.step_of_log() if training is not None else -1


def log(step: Optional[int] = None, **values: Any) -> None:  # noqa: A002
    """Values of a step: loss, learning rate and what else you watch. `python.training_metrics` has them by step.

    Without `step` they belong to the step that is open. Where torch's optimizer ends the steps, a value that is logged
    behind `optimizer.step()` belongs to the step that it ended. A value of None is left out.

    >>> log(loss=0.25, lr=1e-4)
    """
    functions = _probe.functions()
    if functions is None:
        return
    number = _step_now() if step is None else int(step)
    at = _probe.now()
    for name, value in values.items():
        if value is not None:
            functions.counter_at(name.encode("utf-8", "replace"), None, float(value), at, number)


_VIEWS = ("torch_trace", "nccl_trace", "training_metrics", "backtrace", "out_of_memory", "memory_held", "memory_growth")


class table:
    """A table of your own: each `append` is a row, and SQL has it as `python.NAME`.

    `columns` are names of numbers, or names with their types: float, int or str. A row also has ts, node, rank, pid and
    the step; a column `step` says which. Texts are meant to repeat: each different one is kept for as long as the
    process runs.

    >>> evals = table("evals", {"epoch": int, "accuracy": float, "split": str})
    >>> evals.append(epoch=1, accuracy=0.75, split="held out")
    """

    __slots__ = ("_table",)

    def __init__(self, name: str, columns: Union[Iterable[str], Mapping[str, Type[Any]]]) -> None:
        if str(name).lower() in _VIEWS:
            raise ValueError("a table cannot be called %r: that is one of TraceSmith's" % name)
        self._table = _tables.Table(name, columns)

    def append(self, *values: Any, **named: Any) -> None:
        """Adds a row: values in the order of the columns, or by name. What is missing or None is NULL."""
        if len(values) > len(self._table.columns):
            raise ValueError("the columns are " + ", ".join(self._table.columns))
        self._table.append(dict(zip(self._table.columns, values), **named), _step_now)


def metadata(key: str, value: Any) -> None:
    """A fact about this process, as text.

    >>> metadata("model", "gpt-small")
    """
    functions = _probe.functions()
    if functions is not None:
        functions.metadata(str(key).encode("utf-8", "replace"), str(value).encode("utf-8", "replace"))
