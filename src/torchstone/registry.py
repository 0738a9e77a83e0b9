"""The second door: which plug-ins there are, and loading one by name. Listing imports none of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

from torchstone.errors import MissingError, unknown

_SINGULAR = {
    "devices": "device", "telemetry": "telemetry source", "models": "model source", "data": "data source",
    "engines": "task", "launchers": "isolation", "searchers": "searcher", "checks": "check", "exporters": "format",
}  # fmt: skip


@cache
def names(family: str) -> tuple[str, ...]:
    """Return the names of a family's plug-ins, sorted: file names, and entry points `torchstone.<family>`."""
    own = {
        entry.name.removesuffix(".py")
        for entry in files(f"torchstone.{family}").iterdir()
        if entry.name.endswith(".py") and not entry.name.startswith("_")
    }
    return tuple(sorted(own | set(_foreign(family))))


def load(family: str, name: str) -> Any:
    """Import one plug-in and return it. Raises UsageError naming what there is."""
    if name not in names(family):
        raise unknown(_SINGULAR.get(family, family), name, names(family))
    foreign = _foreign(family)
    if name in foreign:
        try:
            return foreign[name].load()
        except Exception as error:  # somebody else's code: whatever it raises, the others go on
            raise MissingError(f"{_SINGULAR.get(family, family)} {name} cannot be imported: {error}") from error
    return import_module(f"torchstone.{family}.{name}").PLUGIN


def _foreign(family: str) -> dict[str, Any]:
    return {entry.name: entry for entry in _entry_points().select(group=f"torchstone.{family}")}


@cache
def _entry_points() -> Any:  # EntryPoints; until Python 3.11 a mapping that selects, too
    """Read the metadata of everything that is installed once: it takes 10 ms."""
    return entry_points()
