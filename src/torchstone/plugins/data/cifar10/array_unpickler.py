"""Reads pickles that hold arrays, texts, numbers, lists and dictionaries, and can do nothing else.

A pickle is a program: Python's own reader imports whatever module it names and calls whatever it finds there. This
reader imports nothing and calls nothing. It knows the instructions that plain data needs; the five names that the
pickle of a numpy array contains stand for marks, and an array is a shape, a type and its bytes, checked against each
other. Whatever else a pickle asks for is refused before it has an effect. Protocols 0 to 4 (CIFAR-10's is 2).
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

from torchstone.core.errors import UsageError
from torchstone.plugins.data._named_files import size_of

LARGEST_BYTES = 1 << 28
MOST_INSTRUCTIONS = 2_000_000  # each makes one small object at most; a batch of CIFAR-10 has 30,000
_MOST_DIMENSIONS = 32
_NUMBERS = re.compile(r"[<>|=]?([iuf][1248]|b1)")

_PLAIN = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK,
    pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.GET, pickle.BINGET, pickle.LONG_BINGET,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2,
    pickle.LONG, pickle.LONG1, pickle.FLOAT, pickle.BINFLOAT, pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING,
    pickle.UNICODE, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINBYTES, pickle.SHORT_BINBYTES,
    pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_LIST, pickle.LIST,
    pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS,
    pickle.GLOBAL, pickle.STACK_GLOBAL,
)  # fmt: skip


class Array:
    """What a pickle says of an array of numbers: `kind` is a letter of i, u, f, b and the bytes of an entry.

    `data` holds as many bytes as the shape says: rows first, or columns first where `fortran` is true.
    """

    __slots__ = ("data", "fortran", "kind", "shape")

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.kind = ""
        self.fortran = False
        self.data = b""


class _Type:
    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind


class _Name(Enum):
    """What a pickle of an array may name. Nothing stands behind it."""

    RECONSTRUCT = "numpy's _reconstruct"
    NDARRAY = "numpy.ndarray"
    DTYPE = "numpy.dtype"
    ENCODE = "_codecs.encode"


_NAMES: Mapping[tuple[str, str], _Name] = {
    ("numpy.core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy", "ndarray"): _Name.NDARRAY,
    ("numpy", "dtype"): _Name.DTYPE,
    ("_codecs", "encode"): _Name.ENCODE,
}


def read(file: Path) -> Any:
    """Return what a pickle holds: Arrays in lists and dictionaries. Texts of Python 2 are bytes, as in Python 2.

    Raises UsageError naming the file if it is missing, larger than 256 MiB, torn, or asks for anything else.
    """
    size_of(file, LARGEST_BYTES)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    return loads(data, str(file))


def loads(data: bytes, where: str) -> Any:
    """Return what the pickle `data` holds. Raises UsageError beginning with `where`."""
    try:
        return _Reader(data).load()
    except _Refused as refusal:
        raise UsageError(f"{where}: refused: this pickle {refusal}; nothing was executed") from None
    except Exception as error:  # what a torn pickle makes the reader raise is any exception
        raise UsageError(f"{where}: not a pickle of arrays, or damaged ({type(error).__name__})") from error


class _Refused(Exception):
    """A pickle asks for more than plain data."""


class _Reader(pickle._Unpickler):
    """Python's reader in Python, with a table of its own of what each instruction does."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), fix_imports=False, encoding="bytes")
        self.dispatch = _Instructions()  # type: ignore[misc]  # of this reader alone: it counts

    def find_class(self, module: str, name: str) -> Any:
        """Return the mark that stands for a name of numpy's. Raises _Refused for every other."""
        if (module, name) not in _NAMES:
            raise _Refused(f"asks for {module[:60]}.{name[:60]}")
        return _NAMES[module, name]


class _Instructions(dict[int, Callable[[Any], None]]):
    """What each instruction does. Hands them out one by one, so many and no more."""

    def __init__(self) -> None:
        known: Mapping[int, Callable[[Any], None]] = pickle._Unpickler.dispatch
        super().__init__({word[0]: known[word[0]] for word in _PLAIN})
        self[pickle.REDUCE[0]] = _call
        self[pickle.BUILD[0]] = _fill
        self._left = MOST_INSTRUCTIONS

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self._left -= 1
        if self._left < 0:
            raise _Refused(f"has more than {MOST_INSTRUCTIONS} instructions")
        return super().__getitem__(code)

    def __missing__(self, code: int) -> NoReturn:
        import pickletools

        known = {op.code: op.name for op in pickletools.opcodes}
        raise _Refused(f"uses the instruction {known.get(chr(code), hex(code))}, which plain data does not need")


def _call(reader: Any) -> None:
    """In place of a call: tell which of the three calls in an array's pickle it is, and put what it stands for."""
    arguments = reader.stack.pop()
    made: Array | _Type | bytes
    match reader.stack[-1], arguments:
        case (_Name.RECONSTRUCT, (_Name.NDARRAY, *_)):
            made = Array()
        case (_Name.DTYPE, (str() | bytes() as kind, *_)):
            made = _Type(_number_type(kind))
        case (_Name.ENCODE, (str() as text, str() | bytes() as code)) if code in ("latin1", b"latin1"):
            made = text.encode("latin-1")  # how Python 3 writes bytes for Python 2
        case (called, _):
            raise _Refused(f"calls {called.value if isinstance(called, _Name) else type(called).__name__}")
    reader.stack[-1] = made


def _fill(reader: Any) -> None:
    """In place of setting the state of an object: fill in an array, or look at the details of a type."""
    state = reader.stack.pop()
    match reader.stack[-1], state:
        case (_Type(), (_, "<" | b"<" | "|" | b"|", None, None, None, *_)):
            pass
        case (_Type(), _):
            raise _Refused("contains an array of records or of another byte order")
        case (Array() as array, (_, tuple() as shape, _Type() as kind, fortran, bytes() as data)):
            _check(shape, kind.kind, data)
            array.shape, array.kind, array.fortran, array.data = shape, kind.kind, bool(fortran), data
        case (thing, _):
            raise _Refused(f"sets the state of {thing.value if isinstance(thing, _Name) else type(thing).__name__}")


def _number_type(kind: str | bytes) -> str:
    text = kind.decode("latin-1") if isinstance(kind, bytes) else kind
    found = _NUMBERS.fullmatch(text)
    if found is None:
        raise _Refused(f"contains an array of type {text[:20]!r}, not of numbers")
    return found[1]


def _check(shape: tuple[Any, ...], kind: str, data: bytes) -> None:
    if len(shape) > _MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise _Refused("contains an array without a valid shape")
    if math.prod(shape) * int(kind[1]) != len(data):
        raise _Refused(f"contains an array of shape {str(shape)[:60]} and type {kind} with {len(data)} bytes of data")
