"""What an HDF5 file holds, for a data set of sequences: its data sets by key, and its splits. h5py is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.batch import SPLITS
from torchstone.plugins.data._named_files import size_of, split_of

_USUAL = ("x", "inputs", "input", "features", "data", "sequences", "noisy")  # what the inputs are called, if not said
_MOST_KEYS = 1000


class Found(msgspec.Struct, frozen=True):
    """Where the sequences of a split are. `target`: None where no target was asked for."""

    key: str
    target: str | None
    items: int
    length: int
    width: int


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """Open a file for reading. Raises UsageError naming it if it is missing, no HDF5 file, or damaged."""
    import h5py

    size_of(file)
    try:
        with h5py.File(file, "r") as handle:
            yield handle
    except OSError as error:
        raise UsageError(f"{file}: cannot be read as HDF5: {' '.join(str(error).split())[:160]}") from error


def found_in(file: Path, key: str | None, target_key: str | None) -> dict[str | None, Found]:
    """Return where the sequences of each split are, or under None those of a file without groups for splits.

    Groups at the top called train, val (validation, dev) and test are splits, and keys are then looked for in each.
    Raises UsageError listing the keys there are, or saying what is wrong with a shape.
    """
    with opened(file) as handle:
        groups: dict[str, str] = {}
        for name in handle:
            split = split_of(name)
            if split is not None and _is_group(handle, name):
                if split in groups:
                    raise UsageError(f"{file}: has both {groups[split]} and {name}, which are the same split")
                groups[split] = name
        if not groups:
            return {None: _found(file, handle, "", key, target_key)}
        return {s: _found(file, handle, f"{groups[s]}/", key, target_key) for s in SPLITS if s in groups}


def _is_group(handle: Any, name: str) -> bool:
    import h5py

    return isinstance(handle.get(name, getlink=True), h5py.HardLink) and isinstance(handle[name], h5py.Group)


def _found(file: Path, handle: Any, below: str, key: str | None, target_key: str | None) -> Found:
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
    return Found(inputs.name, None if target is None else target.name, items, length, width)


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
