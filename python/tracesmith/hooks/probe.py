"""The functions of TraceSmith's probe (tracesmith.h), found in this process by ctypes.

Under `tracesmith run` the probe is in the process. Without it, `functions()` is None and nothing is recorded. Times are
nanoseconds of CLOCK_MONOTONIC_RAW, which `now()` reads.
"""
import ctypes
import functools
import os
import time

_text, _time = ctypes.c_char_p, ctypes.c_uint64


class Operation(ctypes.Structure):
    """tracesmith_operation."""

    _fields_ = [
        ("op", _text),
        ("group", _text),
        ("backend", _text),
        ("dtype", _text),
        ("sequence", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("peer", ctypes.c_int32),
    ]


def _function(result, *arguments):
    # With the GIL held: the probe never blocks, and another thread would take the turn.
    return ctypes.PYFUNCTYPE(result, *arguments)


class _Table(ctypes.Structure):
    """tracesmith_api."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("range_begin", _function(None, _text)),
        ("range_end", _function(None)),
        ("step_begin", _function(None, ctypes.c_int64)),
        ("step_end", _function(None)),
        ("counter", _function(None, _text, ctypes.c_double)),
        ("metadata", _function(None, _text, _text)),
        ("range_at", _function(None, _text, _time, _time)),
        ("mark", _function(None, _text)),
        ("found_step", _function(ctypes.c_int, ctypes.c_int64, _time)),
        ("operation", _function(None, ctypes.POINTER(Operation), _time, _time)),
        ("process_group", _function(None, _text, _text, _text, ctypes.c_int32, _text)),
        ("set_rank", _function(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)),
        ("counter_at", _function(None, _text, _text, ctypes.c_double, _time, ctypes.c_int64)),
        ("graph_capture", _function(ctypes.c_int, ctypes.c_int)),
        ("graph_names", _function(None, _text, ctypes.c_int, _text, _text)),
    ]


class Functions:
    """The functions of the table, each looked up once."""

    __slots__ = tuple(name for name, _ in _Table._fields_[2:])

    def __init__(self, table):
        for name in self.__slots__:
            setattr(self, name, getattr(table, name))


# As the probe reads it; where it does not exist (macOS, Windows) there is no probe.
_CLOCK = getattr(time, "CLOCK_MONOTONIC_RAW", None)


# The probe's clock, in ns. No function of Python's: that would cost more than the clock does.
now = functools.partial(time.clock_gettime_ns, _CLOCK) if _CLOCK is not None else time.monotonic_ns


found = None  # what functions() returned, for those who cannot wait for a call
_asked = False


def _entry(symbol):
    path = os.environ.get("TRACESMITH_PROBE")
    for name in (None, path) if path else (None,):
        try:
            return ctypes.PyDLL(name)[symbol]
        except (OSError, AttributeError):
            continue
    return None


def functions():
    """The probe's functions, or None. The first call starts the recording of this process, unless it was forked."""
    global _asked
    if not _asked:
        _asked = True
        _ask("tracesmith_probe_api")
    return found


def start():
    """The same, and a forked process is recorded from now on."""
    global _asked
    _asked = True
    _ask("tracesmith_probe_start")
    return found


def _ask(symbol):
    global found
    get = _entry(symbol)
    if get is None:
        return
    get.restype = ctypes.POINTER(_Table)
    get.argtypes = []
    table = get()
    if table and table.contents.size >= ctypes.sizeof(_Table):
        found = Functions(table.contents)


def look_again():
    """For those who brought the probe into the process after somebody asked for it."""
    global _asked
    if found is None:
        _asked = False
