"""`cifar10:PATH`: CIFAR-10, 50,000 images to train and 10,000 to test: the official batches, folders or parquet.

Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_source import ImageSource, find_parquet, find_splits
from torchstone.plugins.data._named_files import ImageSet, size_of
from torchstone.plugins.protocols import DataSource

# Reads pickles that hold arrays, texts, numbers, lists and dictionaries, and can do nothing else.
#
# A pickle is a program: Python's own reader imports whatever module it names and calls whatever it finds there. This
# reader imports nothing and calls nothing. It knows the instructions that plain data needs; the five names that the
# pickle of a numpy array contains stand for marks, and an array is a shape, a type and its bytes, checked against each
# other. Whatever else a pickle asks for is refused before it has an effect. Protocols 0 to 4 (CIFAR-10's is 2).

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


# CIFAR-10 as its authors hand it out: five training batches and one to test, 10,000 images each, as Python pickles.
#
# Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009; the format:
# www.cs.toronto.edu/~kriz/cifar.html

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = ("test_batch",)
_BANDS, _SIDE = 3, 32
_ENTRIES = _BANDS * _SIDE * _SIDE


def find(root: Path, _options: Mapping[str, Scalar]) -> ImageSet | None:
    """Return the batches in a folder, or None if there are none.

    Raises UsageError naming the file if one is missing, is no batch, or its pickle wants to do more than hold arrays.
    """
    absent = [name for name in (*_TRAIN, *_TEST) if not (root / name).is_file()]
    if len(absent) == len(_TRAIN) + len(_TEST):
        return None
    if absent:
        raise UsageError(f"{root}: {', '.join(absent)} missing; unpack cifar-10-python.tar.gz again")
    names = _names(root / "batches.meta")
    splits: dict[str | None, Batches] = {
        "train": Batches([root / name for name in _TRAIN], len(names)),
        "test": Batches([root / name for name in _TEST], len(names)),
    }
    return ImageSet(splits, names, len(names))


class Batches:
    """The images of some batch files, in their order."""

    def __init__(self, files: Sequence[Path], classes: int) -> None:
        self._files = files
        self._arrays: list[Array] = []
        self.labels: list[int] = []
        for file in files:
            array, labels = _batch(file, classes)
            self._arrays.append(array)
            self.labels += labels

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, index: int) -> str:
        """Return the file, and the number of the image in it, from 0."""
        for file, array in zip(self._files, self._arrays, strict=True):
            if index < array.shape[0]:
                return f"{file}: image {index}"
            index -= array.shape[0]
        raise IndexError(index)

    def stamps(self) -> Iterator[str]:
        """Yield digests of the pixels and of the labels."""
        for file, array in zip(self._files, self._arrays, strict=True):
            yield f"{file.name}\t{hashlib.sha256(array.data).hexdigest()}"
        yield hashlib.sha256(repr(self.labels).encode()).hexdigest()

    def opened(self) -> Any:
        """Return a tensor, uint8, images × 3 × 32 × 32, and let go of the batches."""
        import torch

        pixels = torch.empty((len(self), _BANDS, _SIDE, _SIDE), dtype=torch.uint8)
        begin = 0
        for array in self._arrays:
            images = array.shape[0]
            raw = torch.frombuffer(bytearray(array.data), dtype=torch.uint8)
            rows = raw.view(_ENTRIES, images).t() if array.fortran else raw.view(images, _ENTRIES)
            pixels[begin : begin + images] = rows.reshape(images, _BANDS, _SIDE, _SIDE)
            begin += images
            array.data = b""  # held once: in the tensor
        return pixels


def _batch(file: Path, classes: int) -> tuple[Array, list[int]]:
    content = read(file)
    array, labels = _entry(content, "data"), _entry(content, "labels")
    if not (isinstance(array, Array) and array.kind == "u1" and array.shape[1:] == (_ENTRIES,) and array.shape[0]):
        raise UsageError(f"{file}: not a batch of CIFAR-10: 'data' must be an array, uint8, images × {_ENTRIES}")
    if not (isinstance(labels, list) and len(labels) == array.shape[0] and all(type(one) is int for one in labels)):
        raise UsageError(f"{file}: not a batch of CIFAR-10: 'labels' must be a list of {array.shape[0]} whole numbers")
    wrong = next((n for n, label in enumerate(labels) if not 0 <= label < classes), None)
    if wrong is not None:
        raise UsageError(
            f"{file}: image {wrong}: label {labels[wrong]} is out of range: "
            f"there are {classes} classes, 0 to {classes - 1}"
        )
    return array, labels


def _entry(content: Any, key: str) -> Any:
    """Return an entry of a dictionary, whose keys are bytes where Python 2 wrote them."""
    return content.get(key.encode(), content.get(key)) if isinstance(content, dict) else None


def _names(file: Path) -> tuple[str, ...]:
    """Return the names of the classes that the file says; those of CIFAR-10 where it is not there."""
    if not file.is_file():
        return NAMES
    found = _entry(read(file), "label_names")
    if not (isinstance(found, list) and found and all(isinstance(name, str | bytes) for name in found)):
        raise UsageError(f"{file}: 'label_names' must be a list of texts; without the file, CIFAR-10's names are used")
    return tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in found)


PLUGIN: DataSource = ImageSource(
    "cifar10",
    "CIFAR-10: cifar10:PATH, the folder of data_batch_1 …, of train/ and test/ with class folders, or of parquet files",
    {
        "data_batch_1 to data_batch_5 and test_batch": find,
        "parquet files": find_parquet,
        "train/ and test/ with class folders": find_splits,
    },
    inner="cifar-10-batches-py",
)
