"""Recording of the process that this runs in."""

import functools
import os
from typing import Any, Callable, Dict, Optional, TypeVar

from tracesmith import _native, _places
from tracesmith._native import Record
from tracesmith.hooks import probe
from tracesmith.trace import PathLike, Trace

F = TypeVar("F", bound=Callable[..., Any])


class record:
    """Records this process into a trace: a context manager, a decorator, or an object with ``start`` and ``stop``.

    It records kernels, copies, NCCL operations, and what ``tracesmith.step``, ``range`` and ``counter`` mark. Start it
    before the first CUDA call, to see all of it. To record a program that you did not write, or all ranks of a job, use
    ``tracesmith run``; a process that is recorded by it cannot be recorded a second time.

    >>> with tracesmith.record("run.sbt", force=True) as recording:
    ...     with tracesmith.range("load"):
    ...         pass
    >>> recording.trace.query("SELECT name FROM events WHERE type = 'annotation'").scalar()
    'load'

    >>> @tracesmith.record("train.sbt", force=True)
    ... def train():
    ...     return 42
    >>> train()
    42

    ``mode`` is light, default or full, as for ``tracesmith run``; ``force`` replaces a file that is there; ``platform`` is
    "cuda", or "sim" for simulated GPUs, whose job ``sim`` describes (a ``SimConfig`` as a dictionary).
    """

    def __init__(
        self,
        path: PathLike,
        mode: str = "default",
        force: bool = False,
        platform: str = "cuda",
        sim: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.path = os.fspath(path)
        self.result = None  # type: Optional[Record]
        config = {"path": self.path, "force": force, "platform": platform, "profiler": {"mode": mode, "sim": sim or {}}}
        self._handle = _native.Handle(_native.library(), "Recorder", config)

    def start(self) -> "record":
        self._handle.call("start")
        # The library has loaded the probe, and told C's environment of it but not Python's copy.
        os.environ.setdefault("TRACESMITH_PROBE", _places.library("libtracesmith_probe.so"))
        probe.look_again()
        return self

    def stop(self) -> Record:
        """Ends the recording; what it has: ``records``, ``kernels``, ``collectives``, ``losses``, …"""
        self.result = Record(self._handle.call("stop"))
        return self.result

    @property
    def trace(self) -> Trace:
        """The trace. It can be read while it is recorded."""
        return Trace(self.path)

    def __enter__(self) -> "record":
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]
