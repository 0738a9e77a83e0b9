"""Finds the import that initialised a driver, by asking the driver after each preload and before each import in it.

It stands first among the finders of modules and finds none, so that it hears of every import before that is done, and
it is gone when preloading is over.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from torchstone.execution.worker.driver_state import never_forks, touched

_BEFORE = "before anything was preloaded, by a sitecustomize or .pth file of this environment"
_AFTER = "after everything was preloaded, by a thread that an import started"


class PreloadWatch:
    """Use as a context manager around what preloads. `ask`: says which driver has been initialised, or None."""

    def __init__(self, ask: Callable[[], str | None] = touched) -> None:
        self._ask = ask
        self._step = self._import = ""
        self._found: str | None = None

    def __enter__(self) -> Self:
        self._look(_BEFORE)
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.meta_path.remove(self)
        self._look()

    def begins(self, step: str) -> None:
        """Note that the next step of preloading begins, and so that the last one is over."""
        self._look()
        self._step, self._import = step, ""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note that this module is about to be imported (importlib.abc.MetaPathFinder), and leave it to be found."""
        self._look()
        self._import = name

    def reason(self) -> str | None:
        """Return why nothing may be forked from this process now, and what made it so; None: a fork is safe."""
        self._look(_AFTER)
        return self._found or never_forks()

    def _look(self, blamed: str | None = None) -> None:
        if self._found is None and (found := self._ask()) is not None:
            by = f"by the preload of {self._step}" + (f", at `import {self._import}`" if self._import else "")
            self._found = f"{found} {blamed or by}"
