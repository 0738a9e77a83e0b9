"""Rows of a Parquet file, read a thousand at a time through pyarrow, which is imported only here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError
from torchstone.plugins.data._named_files import LARGEST_TABLE_BYTES, size_of

_ROWS_AT_ONCE = 1024
_MOST_BYTES = 4 * LARGEST_TABLE_BYTES  # what the columns may grow to when they are unpacked


def refuse_without_pyarrow(scheme: str) -> None:
    """Raise MissingError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise MissingError(f"data {scheme}: needs pyarrow: pip install 'torchstone[data]'")


class ParquetTable:
    """One file. Raises UsageError naming it where it is not Parquet, is too large, or has two columns of a name."""

    def __init__(self, file: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = str(file)
        self._file = file
        size_of(file, LARGEST_TABLE_BYTES)
        with self._reading(), pq.ParquetFile(file) as parquet:
            schema, meta = parquet.schema_arrow, parquet.metadata
            unpacked = sum(meta.row_group(n).total_byte_size for n in range(meta.num_row_groups))
        self.columns = tuple(schema.names)
        twice = {name for name in self.columns if self.columns.count(name) > 1}
        if twice:
            raise UsageError(f"{file}: has two columns {min(twice)!r}")
        if unpacked > _MOST_BYTES:
            raise UsageError(f"{file}: {unpacked} bytes unpacked, more than the {_MOST_BYTES} that are read")
        types = pa.types
        self._numeric = tuple(f.name for f in schema if types.is_integer(f.type) or types.is_floating(f.type))

    def numeric(self) -> tuple[str, ...]:
        """Return the columns of numbers, by their type."""
        return self._numeric

    def rows(self, wanted: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the number of each row, from 1, and its cells of these columns."""
        import pyarrow.parquet as pq

        number = 0
        with self._reading(), pq.ParquetFile(self._file) as parquet:
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=list(wanted), use_threads=False):
                for cells in zip(*(batch.column(name).to_pylist() for name in wanted), strict=True):
                    number += 1
                    yield number, cells
        if number == 0:
            raise UsageError(f"{self.name}: has no rows")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{self.name}: cannot be read as Parquet: {' '.join(str(error).split())[:160]}") from error
