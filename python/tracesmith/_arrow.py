"""Reads Arrow streams without pyarrow: rows as tuples, columns as NumPy arrays.

A batch belongs to whoever holds it: arrays that are made of it without a copy keep it alive.
"""

import ctypes
import datetime
import decimal
import weakref
from typing import Any, Callable, Iterator, List, Optional, Tuple

from tracesmith._native import ArrowArray, ArrowArrayStream, ArrowSchema, Error

# struct's letter for each of Arrow's plain formats; dates and times of day are numbers first.
_PLAIN = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d"}
_EPOCH = datetime.datetime(1970, 1, 1)


def _letter(format: str) -> Optional[str]:
    if format in _PLAIN:
        return _PLAIN[format]
    if format == "tdD":
        return "i"
    if format[:2] in ("ts", "tt", "tD"):
        return "i" if format in ("tts", "ttm") else "q"
    return None


class Field:
    """A column: its name, Arrow's format, and the fields inside."""

    def __init__(self, schema: ArrowSchema) -> None:
        self.name = (schema.name or b"").decode("utf-8", "replace")
        self.format = schema.format.decode()
        self.children = [Field(schema.children[i].contents) for i in range(schema.n_children)]
        self.dictionary = Field(schema.dictionary.contents) if schema.dictionary else None  # type: Optional[Field]


class Batch:
    """Rows of a stream. Released when the last array over it goes."""

    def __init__(self, array: ArrowArray) -> None:
        self.array = array
        weakref.finalize(self, _release, array)


def _release(array: Any) -> None:
    if array.release:
        array.release(ctypes.byref(array))


class Stream:
    """A stream that is read here. It can be handed over whole (``__arrow_c_stream__``), or read once."""

    def __init__(self, stream: ArrowArrayStream) -> None:
        self.stream = stream
        self._end = weakref.finalize(self, _release, stream)
        schema = ArrowSchema()
        self._check(stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
        try:
            self.fields = Field(schema).children
        finally:
            _release(schema)

    def _check(self, failed: int) -> None:
        if failed:
            why = self.stream.get_last_error(ctypes.byref(self.stream))
            raise Error((why or b"the query failed").decode("utf-8", "replace"))

    def batches(self) -> Iterator[Batch]:
        while self.stream.release:
            array = ArrowArray()
            self._check(self.stream.get_next(ctypes.byref(self.stream), ctypes.byref(array)))
            if not array.release:
                break
            yield Batch(array)
        self._end()

    def address(self) -> int:
        """Where the stream lies, for those who take it over from there."""
        return ctypes.addressof(self.stream)

    def capsule(self) -> Any:
        """Hands the stream over, as the Arrow PyCapsule interface says."""
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR]
        size = ctypes.sizeof(self.stream)
        address = _malloc(size)
        ctypes.memmove(address, ctypes.byref(self.stream), size)
        self._end.detach()
        self.stream.release = type(self.stream.release)()
        return new(address, b"arrow_array_stream", _destroy)


_libc = ctypes.CDLL(None)
_malloc = _libc.malloc
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_free = _libc.free
_free.restype, _free.argtypes = None, [ctypes.c_void_p]
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def _destroy_capsule(capsule: int) -> None:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    address = get(capsule, b"arrow_array_stream")
    _release(ArrowArrayStream.from_address(address))
    _free(address)


_destroy = _DESTRUCTOR(_destroy_capsule)


def _buffer(array: ArrowArray, index: int, size: int) -> memoryview:
    address = array.buffers[index]
    if not address or size <= 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def _bits(array: ArrowArray, index: int) -> Optional[List[bool]]:
    """A map of bits as a list; None if there is none."""
    if not array.buffers[index]:
        return None
    end = array.offset + array.length
    number = int.from_bytes(_buffer(array, index, (end + 7) // 8), "little")
    return [c == "1" for c in bin(number | 1 << end)[:2:-1][array.offset : end]]


def _numbers(array: ArrowArray, index: int, letter: str, count: int) -> List[Any]:
    """`count` numbers of a buffer from the array's offset on."""
    view = _buffer(array, index, (array.offset + count) * ctypes.sizeof(_ctype(letter)))
    return view.cast(letter).tolist()[array.offset :] if len(view) else [0] * count


def _ctype(letter: str) -> Any:
    return {"b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16, "i": ctypes.c_int32,
            "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "f": ctypes.c_float,
            "d": ctypes.c_double}[letter]


def _moment(format: str) -> Callable[[int], Any]:
    """How a number of this format becomes a value of Python's."""
    if format == "tdD":
        return lambda days: (_EPOCH + datetime.timedelta(days)).date()
    unit = {"s": 10**6, "m": 10**3, "u": 1}.get(format[2])
    if unit is None:
        return lambda number: number  # nanoseconds, which Python's types do not hold
    if format.startswith("ts"):
        zone = datetime.timezone.utc if len(format) > 4 else None
        return lambda number: (_EPOCH + datetime.timedelta(microseconds=number * unit)).replace(tzinfo=zone)
    if format.startswith("tt"):
        return lambda number: (_EPOCH + datetime.timedelta(microseconds=number * unit)).time()
    return lambda number: datetime.timedelta(microseconds=number * unit)


def values(field: Field, array: ArrowArray) -> List[Any]:
    """The values of a column as Python's objects; NULL is None."""
    format, count, letter = field.format, array.length, _letter(field.format)
    if field.dictionary:
        named = values(field.dictionary, array.dictionary.contents)
        valid = _bits(array, 0) if array.null_count != 0 else None
        indexes = _numbers(array, 1, _PLAIN[format], count)
        return [named[i] if ok else None for i, ok in zip(indexes, valid)] if valid else [named[i] for i in indexes]
    if format == "n":
        return [None] * count
    if letter:
        out = _numbers(array, 1, letter, count)
        if format not in _PLAIN:
            convert = _moment(format)
            out = [convert(v) for v in out]
    elif format == "b":
        out = _bits(array, 1) or [False] * count
    elif format in ("u", "z", "U", "Z"):
        ends = _numbers(array, 1, "i" if format in ("u", "z") else "q", count + 1)
        data = bytes(_buffer(array, 2, ends[-1] if ends else 0))
        out = [data[a:b] for a, b in zip(ends, ends[1:])]
        if format in ("u", "U"):
            out = [v.decode("utf-8", "replace") for v in out]
    elif format.startswith("d:"):
        parts = format[2:].split(",")
        scale, width = int(parts[1]), int(parts[2]) // 8 if len(parts) > 2 else 16
        data = bytes(_buffer(array, 1, (array.offset + count) * width))[array.offset * width :]
        whole = [int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, count * width, width)]
        out = [decimal.Decimal(v).scaleb(-scale) for v in whole] if scale else whole
    elif format == "tin":
        data = bytes(_buffer(array, 1, (array.offset + count) * 16))[array.offset * 16 :]
        out = []
        for i in range(0, count * 16, 16):
            months = int.from_bytes(data[i : i + 4], "little", signed=True)
            days = int.from_bytes(data[i + 4 : i + 8], "little", signed=True)
            ns = int.from_bytes(data[i + 8 : i + 16], "little", signed=True)
            out.append(datetime.timedelta(days=months * 30 + days, microseconds=ns // 1000))
    elif format in ("+l", "+L", "+m"):
        ends = _numbers(array, 1, "q" if format == "+L" else "i", count + 1)
        inner = values(field.children[0], array.children[0].contents)
        out = [inner[a:b] for a, b in zip(ends, ends[1:])]
        if format == "+m":
            names = [f.name for f in field.children[0].children]
            out = [{e[names[0]]: e[names[1]] for e in entries} for entries in out]
    elif format == "+s":
        columns = [values(f, array.children[i].contents) for i, f in enumerate(field.children)]
        names = [f.name for f in field.children]
        rows = zip(*(c[array.offset : array.offset + count] for c in columns)) if columns else iter([()] * count)
        out = [dict(zip(names, row)) for row in rows]
    elif format.startswith("+w:"):
        width = int(format[3:])
        inner = values(field.children[0], array.children[0].contents)
        out = [inner[(array.offset + i) * width : (array.offset + i + 1) * width] for i in range(count)]
    else:
        raise Error("column {} has Arrow's format {}, which needs pyarrow".format(field.name, format))
    valid = _bits(array, 0) if array.null_count != 0 else None
    return [v if ok else None for v, ok in zip(out, valid)] if valid else out


def rows(stream: Stream) -> Iterator[Tuple[Any, ...]]:
    for batch in stream.batches():
        array = batch.array
        columns = [values(f, array.children[i].contents) for i, f in enumerate(stream.fields)]
        for row in zip(*columns):
            yield row


def numpy_columns(stream: Stream, numpy: Any) -> List[Any]:
    """A NumPy array for each column. Numbers without NULL in a single batch are not copied; numbers with NULL become
    float64 with NaN (whole numbers that float64 cannot hold: objects), and everything else an array of objects."""
    parts = [[] for _ in stream.fields]  # type: List[List[Any]]
    for batch in stream.batches():
        for i, field in enumerate(stream.fields):
            parts[i].append(_numpy_part(field, batch.array.children[i].contents, batch, numpy))
    out = []
    for field, arrays in zip(stream.fields, parts):
        if len(arrays) == 1:
            out.append(arrays[0])
        elif arrays:
            out.append(numpy.concatenate(arrays))
        else:
            plain = field.format in _PLAIN and not field.dictionary
            out.append(numpy.empty(0, dtype=_PLAIN[field.format] if plain else object))
    return out


def _numpy_part(field: Field, array: ArrowArray, batch: Batch, numpy: Any) -> Any:
    format, count = field.format, array.length
    letter = _PLAIN.get(format) if not field.dictionary else None
    has_null = array.null_count != 0 and bool(array.buffers[0])
    if letter and count and array.buffers[1]:
        size = ctypes.sizeof(_ctype(letter))
        memory = (_ctype(letter) * count).from_address(array.buffers[1] + array.offset * size)
        memory.batch = batch  # keeps what it lies in
        out = numpy.frombuffer(memory, dtype=letter)
        if not has_null:
            return out
        valid = numpy.array(_bits(array, 0), dtype=bool)
        if size == 8 and letter != "d" and numpy.any(numpy.abs(out[valid].astype("float64")) > 2.0**53):
            out = out.astype(object)
            out[~valid] = None
        else:
            out = out.astype("float64")
            out[~valid] = numpy.nan
        return out
    if not field.dictionary and format[:3] in ("tss", "tsm", "tsu", "tsn") and count:
        unit = {"s": "s", "m": "ms", "u": "us", "n": "ns"}[format[2]]
        out = numpy.array(_numbers(array, 1, "q", count), dtype="int64").astype("datetime64[{}]".format(unit))
        if has_null:
            out[~numpy.array(_bits(array, 0), dtype=bool)] = numpy.datetime64("NaT")
        return out
    listed = values(field, array)
    if format == "b" and not has_null and not field.dictionary:
        return numpy.array(listed, dtype=bool)
    if format.startswith("d:"):  # what sum() of whole numbers gives, and decimals
        if not has_null and all(isinstance(v, int) and -(2**63) <= v < 2**63 for v in listed):
            return numpy.array(listed, dtype="int64")
        return numpy.array([numpy.nan if v is None else float(v) for v in listed], dtype="float64")
    out = numpy.empty(count, dtype=object)
    out[:] = listed
    return out
