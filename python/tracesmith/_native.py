"""The C API (``include/tracesmith/c_api.h``) by ctypes. Loaded when something of it is used."""

import ctypes
import json
import weakref
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

from tracesmith import _places


class Error(RuntimeError):
    """TraceSmith could not do it; the message is one sentence that says why."""


class Invalid(Error, ValueError):
    """What was asked makes no sense."""


class NotFound(Error, KeyError):
    """There is no such thing."""

    def __str__(self) -> str:  # KeyError's puts it in quotes
        return str(self.args[0])


_KINDS = {"invalid": Invalid, "not_found": NotFound}  # type: Dict[str, Type[Error]]


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class ArrowArrayStream(ctypes.Structure):
    pass


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))),
    ("private_data", ctypes.c_void_p),
]
_STREAM = ctypes.POINTER(ArrowArrayStream)
ArrowArrayStream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, _STREAM, ctypes.POINTER(ArrowSchema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, _STREAM, ctypes.POINTER(ArrowArray))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, _STREAM)),
    ("release", ctypes.CFUNCTYPE(None, _STREAM)),
    ("private_data", ctypes.c_void_p),
]

LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Library:
    """One of the two libraries with the functions of the C API."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = _places.library(name)
        try:
            self.c = ctypes.CDLL(path)
        except OSError as error:
            raise Error("{} cannot be loaded: {}".format(path, error)) from None
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for function, gives, takes in (
            ("last_error", text, []),
            ("last_error_kind", text, []),
            ("describe", pointer, []),
            ("new", pointer, [text, text]),
            ("call", pointer, [pointer, text, text]),
            ("delete", None, [pointer]),
            ("query", ctypes.c_bool, [pointer, text, _STREAM]),
            ("interrupt", None, [pointer]),
            ("listen", ctypes.c_bool, [pointer, LISTENER, pointer]),
            ("free", None, [pointer]),
        ):
            entry = getattr(self.c, "tracesmith_" + function)
            entry.restype, entry.argtypes = gives, takes
        self.description = self._take(self.c.tracesmith_describe())  # type: Dict[str, Any]

    def error(self) -> Error:
        kind = _KINDS.get(self.c.tracesmith_last_error_kind().decode(), Error)
        return kind(self.c.tracesmith_last_error().decode("utf-8", "replace"))

    def _take(self, answer: Optional[int]) -> Any:
        if not answer:
            raise self.error()
        try:
            return json.loads(ctypes.string_at(answer).decode("utf-8"))
        finally:
            self.c.tracesmith_free(answer)


_loaded = {}  # type: Dict[str, Library]


def library(name: str = "libtracesmith_c.so") -> Library:
    if name not in _loaded:
        _loaded[name] = Library(name)
    return _loaded[name]


class Handle:
    """An object of the C API. It goes when this does."""

    def __init__(self, of: Library, class_name: str, config: Dict[str, Any]) -> None:
        self.library = of
        self.pointer = of.c.tracesmith_new(class_name.encode(), json.dumps(config).encode())
        if not self.pointer:
            raise of.error()
        self._end = weakref.finalize(self, of.c.tracesmith_delete, self.pointer)
        self._listener = None  # type: Any

    def close(self) -> None:
        self._end()
        self.pointer = None

    def _open(self) -> int:
        if not self.pointer:
            raise Error("it is closed")
        return self.pointer

    def call(self, method: str, *arguments: Any) -> Any:
        text = json.dumps(arguments).encode()
        return self.library._take(self.library.c.tracesmith_call(self._open(), method.encode(), text))

    def query(self, sql: str) -> ArrowArrayStream:
        stream = ArrowArrayStream()
        if not self.library.c.tracesmith_query(self._open(), sql.encode(), ctypes.byref(stream)):
            raise self.library.error()
        return stream

    def interrupt(self) -> None:
        if self.pointer:
            self.library.c.tracesmith_interrupt(self.pointer)

    def listen(self, callback: Optional[Callable[[Any], None]]) -> None:
        if callback is None:
            listener = LISTENER()
        else:
            told = callback

            def tell(_: Any, text: bytes) -> None:
                told(json.loads(text.decode("utf-8")))

            listener = LISTENER(tell)
        if not self.library.c.tracesmith_listen(self._open(), listener, None):
            raise self.library.error()
        self._listener = listener  # as long as it may be called


T = TypeVar("T", bound="Record")


class Record:
    """What a method gives: the fields of a JSON object as attributes.

    >>> Record({"rank": 3, "parts": [{"name": "a"}]}).parts[0].name
    'a'
    """

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.__dict__.update((key, wrapped(value)) for key, value in fields.items())

    def to_dict(self) -> Dict[str, Any]:
        """The same as plain dictionaries and lists."""
        return {key: plain(value) for key, value in self.__dict__.items() if not key.startswith("_")}

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __contains__(self, key: str) -> bool:
        return key in self.__dict__

    def keys(self) -> List[str]:
        return [key for key in self.__dict__ if not key.startswith("_")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        fields = ", ".join("{}={}".format(key, shortened(self.__dict__[key])) for key in self.keys())
        return "{}({})".format(type(self).__name__, fields)


def wrapped(value: Any, record: Type[Record] = Record) -> Any:
    """Dictionaries as records, whatever they are in."""
    if isinstance(value, dict):
        return record(value)
    if isinstance(value, list):
        return [wrapped(item, record) for item in value]
    return value


def plain(value: Any) -> Any:
    """Records as dictionaries, whatever they are in."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def shortened(value: Any) -> str:
    if isinstance(value, list) and len(value) > 3:
        return "[{} items]".format(len(value))
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
