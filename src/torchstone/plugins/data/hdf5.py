"""`hdf5:PATH`: sequences from a data set of an .h5 file, items × length × width, with others as targets if you like."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import SPLITS, DataCard, View
from torchstone.plugins.data._named_files import files_digest, size_of, split_of
from torchstone.plugins.protocols import DataSource, Samples

_USUAL = ("x", "inputs", "input", "features", "data", "sequences", "noisy")  # what the inputs are called, if not said
_MOST_KEYS = 1000


class SplitSequences(msgspec.Struct, frozen=True):
    """Where the sequences of a split are. `target`: None where no target was asked for."""

    key: str
    target: str | None
    items: int
    length: int
    width: int


@contextmanager
def open_hdf5(file: Path) -> Iterator[Any]:
    """Open a file for reading. Raises UsageError naming it if it is missing, no HDF5 file, or damaged."""
    import h5py

    size_of(file)
    try:
        with h5py.File(file, "r") as handle:
            yield handle
    except OSError as error:
        raise UsageError(f"{file}: cannot be read as HDF5: {' '.join(str(error).split())[:160]}") from error


def sequences_in(file: Path, key: str | None, target_key: str | None) -> dict[str | None, SplitSequences]:
    """Return where the sequences of each split are, or under None those of a file without groups for splits.

    Groups at the top called train, val (validation, dev) and test are splits, and keys are then looked for in each.
    Raises UsageError listing the keys there are, or saying what is wrong with a shape.
    """
    with open_hdf5(file) as handle:
        groups: dict[str, str] = {}
        for name in handle:
            split = split_of(name)
            if split is not None and _is_group(handle, name):
                if split in groups:
                    raise UsageError(f"{file}: has both {groups[split]} and {name}, which are the same split")
                groups[split] = name
        if not groups:
            return {None: _sequences_of(file, handle, "", key, target_key)}
        return {s: _sequences_of(file, handle, f"{groups[s]}/", key, target_key) for s in SPLITS if s in groups}


def _is_group(handle: Any, name: str) -> bool:
    import h5py

    return isinstance(handle.get(name, getlink=True), h5py.HardLink) and isinstance(handle[name], h5py.Group)


def _sequences_of(file: Path, handle: Any, below: str, key: str | None, target_key: str | None) -> SplitSequences:
    datasets = _datasets(handle[below] if below else handle)
    inputs = datasets[_chosen(file, below, key, datasets)]
    items, length, width = _shape(file, inputs)
    target = None
    if target_key is not None:
        target = datasets[_chosen(file, below, target_key, datasets)]
        if _shape(file, target)[:2] != (items, length):
            raise UsageError(
                f"{file}: {target.name[1:]} is {_shown(target)}, but {inputs.name[1:]} is {_shown(inputs)}: "
                "both need as many sequences of the same length"
            )
    return SplitSequences(inputs.name, None if target is None else target.name, items, length, width)


def _datasets(group: Any) -> Mapping[str, Any]:
    """Return the data sets below a group by key. Links to other places are not followed: a file stands for itself."""
    import h5py

    found: dict[str, Any] = {}

    def see(name: str, node: Any) -> bool | None:
        if isinstance(node, h5py.Dataset) and not node.is_virtual and not node.external:
            found[name] = node
        return True if len(found) >= _MOST_KEYS else None

    group.visititems(see)
    return found


def _chosen(file: Path, below: str, key: str | None, datasets: Mapping[str, Any]) -> str:
    if key is not None and key in datasets:
        return key
    if key is None:
        if len(datasets) == 1:
            return next(iter(datasets))
        if usual := next((name for name in _USUAL if name in datasets), None):
            return usual
    have = ", ".join(f"{below}{name} ({_shown(data)})" for name, data in list(datasets.items())[:20]) or "no data set"
    what = f"has no data set {below}{key}" if key is not None else "say which data set: key=NAME"
    raise UsageError(f"{file}: {what}; it has: {have}")


def _shape(file: Path, data: Any) -> tuple[int, int, int]:
    if data.dtype.kind not in "fiu":
        raise UsageError(f"{file}: {data.name[1:]} contains {data.dtype}, not numbers")
    if len(data.shape) != 3 or 0 in data.shape:
        raise UsageError(f"{file}: {data.name[1:]} is {_shown(data)}, not items × length × width")
    items, length, width = data.shape
    return items, length, width


def _shown(data: Any) -> str:
    return " × ".join(map(str, data.shape or ())) or "one value"


class Sequences:
    """Items of `features`, float32, length × width, and `targets` of the same length where a target key was given.

    The file is opened in each process that reads, on its first item: a handle of HDF5 does not survive a fork. A data
    set that lies in the file in one piece is mapped into memory, which reads an item in half the time.
    """

    def __init__(self, file: Path, where: SplitSequences, length: int) -> None:
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
        found = sequences_in(file, *_keys(options))
        counts = {split: one.items for split, one in found.items() if split is not None}
        total = sum(one.items for one in found.values())
        return DataCard("features", total, None, files_digest([file]), counts)

    def samples(self, path: str, view: View) -> Samples:
        file = _file(path)
        splits = sequences_in(file, *_keys(view.options))
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
