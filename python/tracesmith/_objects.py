"""Classes of the C API as classes of Python: methods and fields come from the library's own description of them."""

import re
from typing import Any, Callable, Dict, List, Optional, Type

from tracesmith import _native
from tracesmith._native import Record, plain


def snake(name: str) -> str:
    """
    >>> snake("getEventsFromGPU"), snake("exportToSBT"), snake("getNVLinkTransfers"), snake("addGPU")
    ('get_events_from_gpu', 'export_to_sbt', 'get_nvlink_transfers', 'add_gpu')
    """
    name = name.replace("NVLink", "Nvlink").replace("GPUs", "Gpus")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Struct(Record):
    """A struct of the C++ API: its fields are attributes, with their defaults where they are not given."""

    _library = "libtracesmith_c.so"

    def __init__(self, fields: Optional[Dict[str, Any]] = None, **more: Any) -> None:
        name = type(self).__name__
        library = _native.library(self._library)
        known = library.description["structs"][name]
        values = {key: field["value"] for key, field in known.items()}
        for key, value in dict(fields or {}, **more).items():
            if key not in known:
                raise TypeError("{} has no field {!r}; its fields are {}".format(name, key, ", ".join(known)))
            values[key] = _given(plain(value), known[key]["type"], library)
        for key, value in values.items():
            self.__dict__[key] = _given(value, known[key]["type"], library)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError("{} has no field {!r}".format(type(self).__name__, name))
        self.__dict__[name] = value


_STRUCTS = {}  # type: Dict[str, Type[Struct]]


def struct(of: Type[Struct]) -> Type[Struct]:
    """For classes that have a name of their own in the package."""
    _STRUCTS[of.__name__] = of
    return of


def _class_of(kind: str, library: _native.Library) -> Type[Struct]:
    """The class of a struct; of one that the package does not name, made from its description."""
    if kind not in _STRUCTS:
        _STRUCTS[kind] = type(kind, (Struct,), {"_library": library.name, "__module__": "tracesmith.cluster"})
    return _STRUCTS[kind]


def _given(value: Any, kind: str, library: _native.Library) -> Any:
    """A value of JSON as the description says it: lists, dictionaries, and structs of their own class."""
    kind = kind.rstrip("?")
    if isinstance(value, list) and kind.startswith("list["):
        return [_given(item, kind[5:-1], library) for item in value]
    if isinstance(value, dict) and kind.startswith("dict["):
        return {key: _given(item, kind[5:-1], library) for key, item in value.items()}
    fields = library.description["structs"].get(kind)
    if not isinstance(value, dict) or fields is None:
        return value
    of = _class_of(kind, library)
    made = of.__new__(of)
    for key, field in fields.items():
        made.__dict__[key] = _given(value.get(key, field["value"]), field["type"], library)
    unknown = set(value) - set(fields)
    if unknown:
        raise TypeError("{} has no field {!r}; its fields are {}".format(kind, min(unknown), ", ".join(fields)))
    return made


class Object:
    """An object of the C++ API. Its methods have their C++ names and the same in snake_case: ``getEvents`` and
    ``get_events``. A method that returns ``False`` leaves the reason in ``lastError()``."""

    _library = "libtracesmith_c.so"

    def __init__(self, config: Any = None, **fields: Any) -> None:
        given = dict(plain(config) if config is not None else {}, **plain(fields))
        name = type(self).__name__
        library = _native.library(self._library)
        self._methods = library.description["classes"][name]["methods"]  # type: Dict[str, Any]
        self._snake = {snake(method): method for method in self._methods}
        self._handle = _native.Handle(library, name, given)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = self._snake.get(name, name)
        if method not in self._methods:
            raise AttributeError("{} has no method {!r}".format(type(self).__name__, name))
        gives = self._methods[method]["gives"]

        def call(*arguments: Any) -> Any:
            return _given(self._handle.call(method, *(plain(a) for a in arguments)), gives, self._handle.library)

        call.__name__ = name
        call.__doc__ = "({}) -> {}".format(", ".join(self._methods[method]["takes"]), gives)
        return call

    def __dir__(self) -> List[str]:
        return sorted(set(super().__dir__()) | set(self._methods) | set(self._snake))

    def _listen(self, callback: Optional[Callable[[Any], None]], kind: str) -> None:
        if callback is None:
            self._handle.listen(None)
        else:
            told = callback
            self._handle.listen(lambda value: told(_given(value, kind, self._handle.library)))

    def close(self) -> None:
        """Ends what it does and frees it; also when it is collected."""
        self._handle.close()

    def __repr__(self) -> str:
        return "<{} of TraceSmith>".format(type(self).__name__)
