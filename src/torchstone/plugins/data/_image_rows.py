"""The encoded images in parquet files: in memory where they fit, else a few row groups at a time. Only for trials."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from torchstone.core.errors import UsageError

_MOST_GROUPS = 8  # row groups held where not all of them fit into memory
_OPEN: WeakValueDictionary[tuple[tuple[Path, str], ...], Encoded] = WeakValueDictionary()


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
