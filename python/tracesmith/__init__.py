"""TraceSmith: what every GPU of a job did, on one clock, and who made the others wait.

>>> import tracesmith
>>> trace = tracesmith.Trace("job.sbt")
>>> trace.query("SELECT count(*) FROM steps WHERE rank = 0").scalar()
8
>>> trace.analyze().verdict.rank
3

Importing this package is cheap: it loads nothing but the standard library, and the native libraries only when something
of them is used. It never imports torch, NumPy or pandas by itself.
"""

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from tracesmith import balance, cluster
    from tracesmith._native import Error
    from tracesmith._result import Result, Table
    from tracesmith.marks import counter, log, metadata, range, step, step_end, table
    from tracesmith.recording import record
    from tracesmith.trace import Analysis, Diff, Timeline, Trace

# What this module offers, and the submodule that has it. A name without a dot is the submodule itself.
_HOME = {
    "Analysis": "trace.Analysis",
    "Diff": "trace.Diff",
    "Error": "_native.Error",
    "Result": "_result.Result",
    "Table": "_result.Table",
    "Timeline": "trace.Timeline",
    "Trace": "trace.Trace",
    "balance": "balance",
    "cluster": "cluster",
    "counter": "marks.counter",
    "log": "marks.log",
    "metadata": "marks.metadata",
    "range": "marks.range",
    "record": "recording.record",
    "step": "marks.step",
    "step_end": "marks.step_end",
    "table": "marks.table",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from tracesmith import _native

        return _native.library().description["version"]
    home = _HOME.get(name)
    if home is None:
        raise AttributeError("module 'tracesmith' has no attribute {!r}".format(name))
    module, _, attribute = home.partition(".")
    value = importlib.import_module("tracesmith." + module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(_HOME))
