"""The registry: which plug-ins there are, and loading one by name. Listing imports none of them.

A third party's plug-in has a name of its own. One that takes the name of ours is never used: `hf:gpt2` in a record
must mean the same everywhere. Two packages that offer the same name are both left out until one of them is removed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torchstone.core.errors import MissingError, unknown

_HERE = Path(__file__).parent
_FOLDERS = {"engines": "tasks"}  # entry points keep the family's first name
_RENDERERS = "torchstone.report.renderers"  # a family that knows Documents: it is a layer above this one
_SINGULAR = {
    "renderers": "report format",
    "telemetry": "telemetry source",
    "models": "model source",
    "data": "data source",
    "engines": "task",
    "launchers": "isolation",
    "exporters": "format",
    "importers": "foreign format",
}  # of others the family without its s

_BASES = {
    "devices": "Vendor",
    "telemetry": "TelemetrySource",
    "models": "ModelSource",
    "data": "DataSource",
    "engines": "Engine",
    "launchers": "Launcher",
    "searchers": "Searcher",
    "checks": "Check",
    "exporters": "Exporter",
    "importers": "Importer",
    "clusters": "Cluster",
    "commands": "Command",
    "runtimes": "Runtime",
}


@cache
def names(family: str) -> tuple[str, ...]:
    """Return the names of a family's plug-ins, sorted: files, packages, and entry points `torchstone.<family>`."""
    return tuple(sorted(_own(family) | set(_foreign(family))))


def load(family: str, name: str) -> Any:
    """Import one plug-in and return it.

    Raises UsageError naming what there is, MissingError if it is a third party's and cannot be used, with the reason.
    """
    if name in _own(family):  # asked first: entry points take a while to read
        if family == "commands":
            return import_module(f"torchstone.cli.{name}_command")
        if family == "renderers":
            return import_module(f"{_RENDERERS}.{name}").RENDERER
        if (topic := _topics(family).get(name)) is not None:
            found = vars(import_module(f"{_package_of(family)}.{topic}"))
            return found.get("PLUGINS", found)[name]
        return import_module(f"{_package_of(family)}.{name}").PLUGIN
    if name not in _foreign(family):
        raise unknown(_SINGULAR.get(family, family.removesuffix("s")), name, names(family))
    what, entries = f"{_SINGULAR.get(family, family.removesuffix('s'))} {name}", _foreign(family)[name]
    if len(entries) > 1:
        packages = ", ".join(_package(entry) for entry in entries)
        raise MissingError(f"{what}: {len(entries)} packages offer it ({packages}); uninstall all but one")
    try:
        plugin = entries[0].load()
    except Exception as error:  # somebody else's code: whatever it raises, the others go on
        said = f"{type(error).__name__}: {error}"
        raise MissingError(f"{what} of {_package(entries[0])} cannot be imported: {said}") from error
    base = _base(family)
    if not isinstance(plugin, base) or not isinstance(getattr(plugin, "describes", None), str):
        door = base.__module__ if family == "renderers" else "torchstone.extend"
        raise MissingError(
            f"{what} of {_package(entries[0])} is not a plug-in: {entries[0].value} must be an object of a subclass of "
            f"{door}.{base.__name__}, with a text `describes`"
        )
    return plugin


def _base(family: str) -> type:
    """Return the class that every plug-in of a family is of."""
    if family == "renderers":
        renderer: type = import_module("torchstone.report.document").Renderer
        return renderer
    from torchstone.plugins import machine_protocols, protocols

    name = _BASES[family]
    found: type = getattr(protocols, name, None) or getattr(machine_protocols, name)
    return found


def usable(family: str) -> Iterator[tuple[str, Any]]:
    """Yield (name, plug-in) of all that can be loaded: one that cannot must not cost the others.

    Our own are expected to load: what they raise goes on.
    """
    for name in names(family):
        try:
            plugin = load(family, name)
        except MissingError:  # `torchstone list` tells; who names it is told, too
            continue
        yield name, plugin


def describe(family: str, name: str) -> str:
    """Return a plug-in's one line, or why it cannot be used."""
    try:
        return str(load(family, name).describes)
    except MissingError as error:
        return str(error)
    except Exception as error:  # somebody else's plug-in: the others are listed all the same
        return f"cannot be loaded: {type(error).__name__}: {error}"


def shadowed(family: str) -> list[tuple[str, str]]:
    """Return (name, why) of third parties' plug-ins that are never used, since ours have their names."""
    what = _SINGULAR.get(family, family.removesuffix("s"))
    return [
        (entry.name, f"of {_package(entry)} is not used: torchstone's own {what} has this name")
        for entry in sorted(_entry_points().select(group=f"torchstone.{family}"), key=_package)
        if entry.name in _own(family)
    ]


@cache
def _own(family: str) -> frozenset[str]:
    """Return the names of our plug-ins of a family: a file, a package, or one of several in the file of a topic.

    Commands are files of cli, above this package.
    """
    if family == "commands":
        files = (_HERE.parent / "cli").glob("*_command.py")
        return frozenset(file.name.removesuffix("_command.py") for file in files)
    folder = _HERE.parent / "report" / family if family == "renderers" else _HERE / _FOLDERS.get(family, family)
    places = [*folder.glob("*.py"), *(file.parent for file in folder.glob("*/__init__.py"))]
    alone = {place.stem for place in places if not place.name.startswith("_")}
    return frozenset(_topics(family)) if family == "checks" else frozenset(alone | _topics(family).keys())


def _package_of(family: str) -> str:
    return f"{__package__}.{_FOLDERS.get(family, family)}"


def _topics(family: str) -> Mapping[str, str]:
    """Return the file of each plug-in that shares one with others of its topic: BY_TOPIC of the family's package."""
    if family == "renderers":
        return {}
    by_topic: Mapping[str, tuple[str, ...]] = getattr(import_module(_package_of(family)), "BY_TOPIC", {})
    return {name: topic for topic, names in by_topic.items() for name in names}


def _foreign(family: str) -> dict[str, list[Any]]:
    """Return the entry points by name. The same line of a package that is found twice on the path is one."""
    found: dict[str, dict[tuple[str, str], Any]] = {}
    for entry in _entry_points().select(group=f"torchstone.{family}"):
        if entry.name not in _own(family):
            found.setdefault(entry.name, {}).setdefault((_package(entry), entry.value), entry)
    return {name: list(entries.values()) for name, entries in found.items()}


def _package(entry: Any) -> str:
    dist = entry.dist
    return f"package {dist.name} {dist.version}" if dist is not None else f"{entry.value}"


@cache
def _entry_points() -> Any:  # EntryPoints
    """Read the metadata of everything that is installed, once, and only where a package names a family of ours.

    To import what reads it (email, zipfile and socket come with it) takes longer than all else that `list` does.
    """
    if not _anything_offered():
        return SimpleNamespace(select=lambda group: ())  # noqa: ARG005  as EntryPoints.select is called
    from importlib.metadata import entry_points

    return entry_points()


def _anything_offered() -> bool:
    """Say whether a package on the path may have an entry point of ours; what cannot be looked into, may."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    for folder in map(Path, sys.path):
        if folder.is_file():  # a zip file with packages in it
            return True
        if any(_offers(about) for kind in ("dist-info", "egg-info") for about in folder.glob(f"*.{kind}")):
            return True
    return False


def _offers(about: Path) -> bool:
    try:
        return b"[torchstone." in (about / "entry_points.txt").read_bytes()
    except OSError:  # it has none
        return False
