"""`hdf5:PATH`: sequences from a data set of an .h5 file, items × length × width, with others as targets if you like."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of
from torchstone.plugins.data.hdf5.contents import Found, found_in
from torchstone.plugins.protocols import DataSource, Samples


class Sequences:
    """Items of `features`, float32, length × width, and `targets` of the same length where a target key was given.

    The file is opened in each process that reads, on its first item: a handle of HDF5 does not survive a fork. A data
    set that lies in the file in one piece is mapped into memory, which reads an item in half the time.
    """

    def __init__(self, file: Path, where: Found, length: int) -> None:
        self._file = file
        self._items = where.items
        self._length = length
        self._keys = {"features": where.key, **({"targets": where.target} if where.target is not None else {})}
        self._opened: tuple[int, Mapping[str, Any]] | None = None

    def __len__(self) -> int:
        return self._items

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        if not 0 <= index < self._items:
            raise IndexError(index)
        try:
            return {
                name: torch.from_numpy(data[index, : self._length].astype("float32"))
                for name, data in self._datasets().items()
            }
        except OSError as error:
            why = " ".join(str(error).split())[:160]
            raise UsageError(f"{self._file}: item {index} cannot be read: {why}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _datasets(self) -> Mapping[str, Any]:
        if self._opened is None or self._opened[0] != os.getpid():
            import h5py

            handle = h5py.File(self._file, "r")
            self._opened = os.getpid(), {name: _rows(handle, handle[key]) for name, key in self._keys.items()}
        return self._opened[1]


def _rows(handle: Any, data: Any) -> Any:
    """Return what gives the items of a data set: the file, mapped from where they begin, or else HDF5 itself.

    There is no such place where a data set lies in chunks (compressed ones do), or was never written.
    """
    import numpy as np

    begin = data.id.get_offset()
    if begin is None or handle.userblock_size:
        return data
    return np.asarray(np.memmap(handle.filename, data.dtype, "r", begin, data.shape))


class Hdf5(DataSource):
    """Data source `hdf5`."""

    describes = "sequences from an .h5 file: hdf5:PATH; key=NAME of the inputs, target_key=NAME if there are targets"
    options: tuple[str, ...] = ("key", "target_key")

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if find_spec("h5py") is None:
            raise MissingError("data hdf5: needs h5py: pip install 'torchstone[data]'")
        file = _file(path)
        found = found_in(file, *_keys(options))
        counts = {split: one.items for split, one in found.items() if split is not None}
        total = sum(one.items for one in found.values())
        return DataCard("features", total, None, digest_of([file]), counts)

    def samples(self, path: str, view: View) -> Samples:
        file = _file(path)
        splits = found_in(file, *_keys(view.options))
        if view.split not in splits:
            raise unknown("split", str(view.split), [str(split) for split in splits])
        found = splits[view.split]
        if view.input.width not in (None, found.width):
            raise UsageError(f"{file}: {found.width} values a position, but the model takes {view.input.width}")
        length = int(view.configuration.get("sequence_length") or found.length)
        if length > found.length:
            raise UsageError(
                f"{file}: sequences of {found.length} positions, shorter than sequence_length={length}; "
                f"use --axis sequence_length={found.length} or less"
            )
        return Sequences(file, found, length)


def _file(path: str) -> Path:
    if not path:
        raise UsageError("data hdf5: name the file: hdf5:signals.h5")
    return Path(path).expanduser()


def _keys(options: Mapping[str, Scalar]) -> tuple[str | None, str | None]:
    key, target = (options.get(name) for name in ("key", "target_key"))
    return None if key is None else str(key).strip("/"), None if target is None else str(target).strip("/")


PLUGIN: DataSource = Hdf5()
