"""Tuned settings, written into the user's own YAML, JSON or TOML file: only the characters of their values change.

Values are replaced where they stand; no library writes the file anew. What comes out is read again, and must mean
what the file meant, but for the settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config._apply_edits import Edit, added, edited, inline, replaced, spelled
from torchstone.config._apply_file import Configuration, read_writable, replace
from torchstone.config._apply_places import Placed, placed
from torchstone.config.positions import KeyPath, Layout, key_text, positions_of
from torchstone.config.run_file import read_request
from torchstone.config.source import Source, parsed
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar

Leaves = dict[KeyPath, Any]


class Changes(msgspec.Struct, frozen=True):
    """What is to be written: the file as it was read, as it will be, and why it cannot be written, if so.

    With `problems`, `after` is what would be needed, as far as that can be told.
    """

    path: Path
    before: bytes
    after: bytes
    problems: tuple[str, ...] = ()


def check_target(path: Path) -> None:
    """Check that a file can be read, understood and replaced. Raises UsageError saying, in one line, why it cannot."""
    read_writable(path)


def plan_changes(path: Path, settings: Mapping[str, Scalar], task: str | None = None) -> Changes:
    """Return what must change in a file for it to say these settings (axis → value). Nothing is written.

    A run file of torchstone gets them as axes of its workload: its only one, or the one of that task ("train"). In any
    other file a setting goes to the one key that has a known name for it (batch_size, per_device_train_batch_size, …),
    wherever it stands, in the form its value has there: `use_amp: true` for bf16. Settings that have no key, or
    several, are problems; one that has what goes without saying (no accumulation) needs none.

    Raises UsageError, with file, line and column where there is one, for a file that cannot be read or replaced.
    """
    file = read_writable(path)
    found = placed(path, file.data, settings, task)
    layout = file.layout
    problems = list(found.problems)
    edits: list[Edit] = []
    expected = _leaves(file.data)
    for key, value in found.changes:
        if key not in layout or layout[key].kind not in ("scalar", "list"):
            problems.append(f"{key_text(key)} comes from an anchor elsewhere in the file, or is a folded text")
            continue
        own, new = replaced(file.text, layout[key], value, file.suffix)
        edits += own
        expected = _set(expected, key, new)
    text = edited(file.text, edits)
    for mapping, name, value in found.missing:
        expected = _set(expected, (*mapping, name), value)
    try:
        if found.missing:
            text = edited(text, _additions(file, text, parsed(text, path)[1], found))
        data, layout = parsed(text, path)
    except UsageError as fault:
        problems.append(f"it cannot be changed in place ({fault})")
    else:
        problems += _surprises(data, expected)
        if found.workload is not None:
            after = Source(str(path), data, positions_of(text, layout))
            problems += _unmeant(after, found.workload, settings)
    return Changes(path, file.raw, file.encoded(text), tuple(problems))


def write(changes: Changes) -> Path | None:
    """Write the changes and return the path of the backup beside the file; None where nothing changes.

    Raises UsageError in one line, with nothing written, if there are problems, or if the file is no longer what it was.
    """
    if changes.problems:
        raise UsageError(f"{changes.path}: nothing written: {'; '.join(changes.problems)}")
    if changes.before == changes.after:
        return None
    return replace(changes.path, changes.before, changes.after)


def diff_text(changes: Changes) -> str:
    """Return the changes as a unified diff; empty where there are none."""
    before, after = (raw.decode("utf-8-sig").splitlines() for raw in (changes.before, changes.after))
    name = str(changes.path)
    lines = difflib.unified_diff(before, after, name, f"{name} (tuned)", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _additions(file: Configuration, text: str, layout: Layout, found: Placed) -> Iterator[Edit]:
    """Yield the edits that add what is missing, each mapping's keys together."""
    mappings: dict[KeyPath, dict[str, str]] = {}
    for mapping, name, value in found.missing:
        mappings.setdefault(mapping, {})[name] = spelled(value, file.suffix)
    for mapping, pairs in mappings.items():
        if any(key[: len(mapping)] == mapping and key != mapping for key in layout):
            yield from added(text, layout, mapping, pairs, file.suffix)
        elif mapping in layout and layout[mapping].kind != "table":  # there, but empty
            place = layout[mapping]
            apart = " " if place.start == place.end else ""
            yield place.start, place.end, apart + inline(pairs, file.suffix)
        elif mapping in layout:
            yield from added(text, layout, mapping, pairs, file.suffix)
        else:
            whole = {str(mapping[-1]): inline(pairs, file.suffix)}
            yield from added(text, layout, mapping[:-1], whole, file.suffix)


def _leaves(data: Any, path: KeyPath = ()) -> Leaves:
    """Return every scalar and every empty mapping or list, by its path."""
    if not isinstance(data, dict | list) or not data:
        return {path: data}
    items = ((str(key), value) for key, value in data.items()) if isinstance(data, dict) else enumerate(data)
    return {key: leaf for step, value in items for key, leaf in _leaves(value, (*path, step)).items()}


def _set(leaves: Leaves, path: KeyPath, value: Any) -> Leaves:
    """Return the leaves with another value at a path, in place of all that was there (or of an empty mapping above)."""
    kept = {key: leaf for key, leaf in leaves.items() if key[: len(path)] != path and path[: len(key)] != key}
    return {**kept, **_leaves(value, path)}


def _surprises(after: Any, expected: Leaves) -> Iterator[str]:
    """Yield what the changed file means besides what was asked: a value that others refer to, say."""
    found = _leaves(after)
    # By type and spelling: 1 is not true, 1.0 is not 1, and NaN is itself.
    wrong = [
        key
        for key in dict.fromkeys((*found, *expected))
        if key not in found or key not in expected or repr(found[key]) != repr(expected[key])
    ]
    if wrong:
        yield f"{', '.join(map(key_text, wrong))} would change as well"


def _unmeant(after: Source, workload: int, settings: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield the settings that torchstone itself would not read from the changed run file."""
    axes = read_request(after).workloads[workload].axes
    for setting, value in settings.items():
        found = axes.get(setting, (AXES[setting].default,))
        if value is not None and found != (value,):
            yield f"{setting} would still be {', '.join(map(str, found))}"
