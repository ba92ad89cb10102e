"""Marks in your own code: steps, ranges, counters and facts about the process.

Under `tracesmith run` they are in the trace. Without it, each call is a test of one variable.

>>> from tracesmith import marks
>>> for i in (0, 1, 2):
...     with marks.step(i):
...         with marks.range("load batch"):
...             pass
...         marks.counter("loss", 0.5)
"""
import functools

from .hooks import probe as _probe

__all__ = ["step", "step_end", "range", "counter", "metadata", "recording"]


def recording():
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

    def __init__(self, number):
        functions = _probe.functions()
        if functions is not None:
            functions.step_begin(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        step_end()


def step_end():
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

    def __init__(self, name):
        self._name = str(name).encode("utf-8", "replace")
        self._open = None

    def __enter__(self):
        self._open = _probe.functions()
        if self._open is not None:
            self._open.range_begin(self._name)
        return self

    def __exit__(self, *_):
        if self._open is not None:
            self._open.range_end()
            self._open = None

    def __call__(self, function):
        name = self._name.decode("utf-8", "replace")

        @functools.wraps(function)
        def marked(*arguments, **named):
            with range(name):
                return function(*arguments, **named)

        return marked


def counter(name, value):
    """The value of a counter of yours, now.

    >>> counter("loss", 0.25)
    """
    functions = _probe.functions()
    if functions is not None:
        functions.counter(str(name).encode("utf-8", "replace"), float(value))


def metadata(key, value):
    """A fact about this process, as text.

    >>> metadata("model", "gpt-small")
    """
    functions = _probe.functions()
    if functions is not None:
        functions.metadata(str(key).encode("utf-8", "replace"), str(value).encode("utf-8", "replace"))
