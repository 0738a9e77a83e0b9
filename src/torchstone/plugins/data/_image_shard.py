"""One parquet file of images: which column holds them, which their labels, and what its labels are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.data._image_rows import reading

UNKNOWN = -1  # the label of every row where a test set keeps its labels to itself
_MOST_ROWS = 100_000_000
_IMAGES = ("image", "img")  # the usual names, the likelier first
_LABELS = ("label", "labels", "class", "target")


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
