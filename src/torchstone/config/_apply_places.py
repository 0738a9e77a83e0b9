"""Which key of a configuration each setting belongs to: in a run file of torchstone, and in anybody's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config._apply_words import Part, Unfit, fitted, parts_of, word
from torchstone.config.positions import KeyPath, key_text
from torchstone.config.run_file import RunRequest, read_request
from torchstone.config.source import read_file
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, DATALOADER_AXES, AxisStage, Scalar, axes_of

_OF_THE_MODEL = axes_of(AxisStage.ITEM)  # a model may have defaults of its own for these


class Placed(msgspec.Struct):
    """Where settings go. `changes`: a key's path and its new value; `missing`: mapping, name, value."""

    changes: list[tuple[KeyPath, Scalar]] = []
    missing: list[tuple[KeyPath, str, Scalar]] = []
    problems: list[str] = []
    workload: int | None = None  # of a run file: which of its workloads


def keys_of(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each key with a value that is no mapping, by its path; what is inside lists, too."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        here = (*path, str(key) if isinstance(data, dict) else key)
        if isinstance(data, dict) and not (isinstance(value, dict) and value):
            yield here, value
        if isinstance(value, dict | list):
            yield from keys_of(value, here)


def placed(path: Path, data: Mapping[Any, Any], settings: Mapping[str, Scalar], task: str | None) -> Placed:
    """Return where the settings belong in a file that was read. `task`: of which workload, where there are several."""
    keys = dict(keys_of(data))
    settings = {name: value for name, value in settings.items() if value is not None}
    if "training" in data:  # a training script's own, though torchstone reads it too (config/training_words.py)
        return _in_any_file(keys, settings)
    try:
        request = read_request(read_file(path))
    except UsageError:  # not one of torchstone's own
        return _in_any_file(keys, settings)
    return _in_run_file(request, keys, settings, task, listed="workloads" in data)


def _in_run_file(
    request: RunRequest, keys: Mapping[KeyPath, Any], settings: Mapping[str, Scalar], task: str | None, *, listed: bool
) -> Placed:
    found = Placed()
    tasks = [workload.task for workload in request.workloads]
    chosen = [i for i, of in enumerate(tasks) if of == (task or "train")] if listed and len(tasks) > 1 else [0]
    if len(chosen) != 1:
        found.problems.append(f"it has {len(tasks)} workloads ({', '.join(tasks)}); which one to change is not clear")
        return found
    found.workload = chosen[0]
    axes: KeyPath = ("workloads", chosen[0], "axes") if listed else ("axes",)
    asked = request.workloads[chosen[0]].axes
    for setting, value in settings.items():
        there, now = (*axes, setting), asked.get(setting)
        if now == (value,) or (now is None and value == AXES[setting].default and setting not in _OF_THE_MODEL):
            continue
        if there not in keys:
            found.missing.append((axes, setting, value))
        elif isinstance(keys[there], list):
            found.changes.append((there, value))
        else:
            _change(found, there, keys[there], Part(setting, (setting,), value, optional=False))
    return found


def _in_any_file(keys: Mapping[KeyPath, Any], settings: Mapping[str, Scalar]) -> Placed:
    found = Placed()
    parts = parts_of(settings, [(word(path[-1]), value) for path, value in keys.items()])
    homes: dict[bool, KeyPath] = {}
    missing: list[Part] = []
    for part in parts:
        there = [path for path in keys if word(path[-1]) in part.names]
        if len(there) == 1:
            homes[part.setting in DATALOADER_AXES] = there[0][:-1]
            _change(found, there[0], keys[there[0]], part)
        elif there and any(not _says(part, path, keys[path]) for path in there):
            places = ", ".join(f"{key_text(path)} = {str(keys[path])[:40]}" for path in there)
            found.problems.append(f"{part.setting} is in several places ({places})")
        elif not there and not part.optional:
            missing.append(part)
    for part in missing:
        # People write a loader's settings side by side: what is missing is shown beside one of its group.
        group = part.setting in DATALOADER_AXES
        home = homes.get(group, homes.get(not group, ()))
        found.missing.append((home, part.names[0], part.value))
        found.problems.append(f"no key for {part.setting} ({', '.join(part.names[:3])})")
    return found


def _says(part: Part, path: KeyPath, old: Any) -> bool:
    try:
        return bool(fitted(part, word(path[-1]), old) == old)
    except Unfit:
        return False


def _change(found: Placed, path: KeyPath, old: Any, part: Part) -> None:
    try:
        new = fitted(part, word(path[-1]), old)
    except Unfit as fault:
        found.problems.append(f"{key_text(path)} {fault}")
        return
    if new != old:
        found.changes.append((path, new))
