"""Modules by the names that they had until November 2026, for plug-ins of other packages that import them.

A plug-in imports from `torchstone.extend` alone; those written before it gave everything imported nouns and errors from
where they lived. Found here, they are the very same modules, so that their classes are, too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # importlib.abc brings importlib.resources and tempfile, for which `torchstone list` need not wait
    Loader = MetaPathFinder = object

_NOW = {
    "torchstone.terms": "torchstone.core.schema",
    "torchstone.stats": "torchstone.core.stats",
    "torchstone.errors": "torchstone.core.errors",
    "torchstone.units": "torchstone.core.units",
    "torchstone.registry": "torchstone.plugins.registry",
    "torchstone.extend_machine": "torchstone.plugins.machine_protocols",
}


class FormerNames(MetaPathFinder):
    """Finds modules by former names."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where a module of that name is now, or None: it is none of ours."""
        former = next((old for old in _NOW if name == old or name.startswith(f"{old}.")), None)
        if former is None:
            return None
        now = _NOW[former] + name.removeprefix(former)
        warnings.warn(f"{name} is {now} now: import from torchstone.extend", DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Present(now))


class _Present(Loader):
    """Gives the module that is there under its present name."""

    def __init__(self, now: str) -> None:
        self._now = now

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._now)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # which the import system has replaced by that of the former name


def install() -> None:
    """Let former names be found from now on: before a plug-in of another package is imported."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerNames())  # before the one of files, which would load a second copy
