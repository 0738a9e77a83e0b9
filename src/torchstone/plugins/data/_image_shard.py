"""One parquet file of images: its columns and labels; and the encoded images of several, in memory where they fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar

UNKNOWN = -1  # the label of every row where a test set keeps its labels to itself
_MOST_ROWS = 100_000_000
_MOST_GROUPS = 8  # row groups held where not all of them fit into memory
_IMAGES = ("image", "img")  # the usual names, the likelier first
_LABELS = ("label", "labels", "class", "target")
_OPEN: WeakValueDictionary[tuple[tuple[Path, str], ...], Encoded] = WeakValueDictionary()


class Shard:
    """One file. `labels`: as they are written, UNKNOWN where there is no such column; `names`: of numbers, if it says.

    Raises UsageError naming the file where it cannot be read, has no rows, or not the columns that were asked for.
    """

    def __init__(self, file: Path, options: Mapping[str, Scalar]) -> None:
        import pyarrow.parquet as pq

        self.file = file
        with reading(file), pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            self.rows = int(parquet.metadata.num_rows)
            if not 0 < self.rows <= _MOST_ROWS:
                raise UsageError(f"{file}: has {self.rows or 'no'} rows" + ", too many" * (self.rows > _MOST_ROWS))
            self.column = _image_column(file, schema, options.get("column"))
            label = _label_column(file, schema, options.get("label"), self.column)
            self.names = _class_names(schema.metadata, label)
            column = parquet.read([label], use_threads=False).column(0) if label is not None else None
            self.labels: list[Any] = column.to_pylist() if column is not None else [UNKNOWN] * self.rows


def _image_column(file: Path, schema: Any, asked: Scalar) -> str:
    there = [field.name for field in schema if _holds_images(field.type)]
    what = "of images (binary, or a struct with bytes)"
    if asked is not None and asked not in there:
        raise UsageError(f"{file}: column={asked} is no column {what}{_has(schema)}")
    if not there:
        raise UsageError(f"{file}: has no column {what}{_has(schema)}")
    return str(asked) if asked is not None else next((name for name in _IMAGES if name in there), there[0])


def _label_column(file: Path, schema: Any, asked: Scalar, image: str) -> str | None:
    import pyarrow as pa

    if asked is not None and asked not in schema.names:
        raise UsageError(f"{file}: has no column {asked}{_has(schema)}")
    name = str(asked) if asked is not None else next((n for n in _LABELS if n in schema.names and n != image), None)
    if name is not None:
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UsageError(f"{file}: the column {name} contains {kind}, not classes; give their column: label=NAME")
    return name


def _holds_images(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(kind.field(n).name == "bytes" and _holds_images(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _has(schema: Any) -> str:
    return f"; it has: {', '.join(f'{field.name} ({field.type})' for field in schema)[:200]}"


def _class_names(metadata: Mapping[bytes, bytes] | None, label: str | None) -> tuple[str, ...]:
    """Return the names that the hub's own note in the file gives to the numbers of a label column."""
    try:
        note = msgspec.json.decode((metadata or {}).get(b"huggingface", b"{}"))
        names = note["info"]["features"][label]["names"]
    except (msgspec.DecodeError, KeyError, TypeError):  # no such note, or one of another form: then they have no names
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


class Encoded:
    """The encoded images of all rows of some files: (file, column) each, in that order.

    Held if they take at most half of the memory that is free: outside Python's heap, where the processes of a loader
    share them. Else a row in no particular order costs the reading of its row group.
    """

    def __init__(self, columns: Sequence[tuple[Path, str]]) -> None:
        import psutil
        import pyarrow.parquet as pq

        self._groups: list[tuple[Path, str, int]] = []
        self._starts: list[int] = []
        self._held: dict[int, Any] = {}
        row = size = 0
        for file, column in columns:
            with reading(file), pq.ParquetFile(file) as parquet:
                for number in range(parquet.metadata.num_row_groups):
                    group = parquet.metadata.row_group(number)
                    self._groups.append((file, column, number))
                    self._starts.append(row)
                    row, size = row + group.num_rows, size + group.total_byte_size
        fits = size <= psutil.virtual_memory().available / 2
        self._most = len(self._groups) if fits else _MOST_GROUPS
        for number in range(len(self._groups) if fits else 0):
            self._group(number)

    def __getitem__(self, index: int) -> BytesIO:
        number = bisect_right(self._starts, index) - 1
        value = self._group(number)[index - self._starts[number]].as_py()
        if value is None:
            raise ValueError("its row has no bytes: the image is missing or outside the file")
        return BytesIO(value)

    def _group(self, number: int) -> Any:
        if number not in self._held:
            if len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            self._held[number] = _read(*self._groups[number])
        return self._held[number]


def opened(columns: Sequence[tuple[Path, str]]) -> Encoded:
    """Return the images of these columns: a training looks at the same ones twice, and holds them once."""
    found = _OPEN.get(tuple(columns))
    if found is None:
        found = _OPEN[tuple(columns)] = Encoded(columns)
    return found


def _read(file: Path, column: str, group: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with reading(file), pq.ParquetFile(file) as parquet:
        images = parquet.read_row_group(group, [column], use_threads=False).column(0)
    return pc.struct_field(images, "bytes") if pa.types.is_struct(images.type) else images


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn what pyarrow raises for a file that is torn, or none of its own, into one line about it."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{file}: cannot be read as parquet: {' '.join(str(error).split())[:160]}") from error
