"""The user's own lines as places that can be shown."""

from __future__ import annotations

from pathlib import Path

from torchstone.core.schema.diagnosis import Place
from torchstone.core.schema.host_profile import HostLine, HostProfile

_MOST = 3
_WORTH = 0.03


def near(file: str) -> str:
    """Return a path as one would type it here: what is below the working folder from there on."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def place(line: HostLine, times: float = 1.0) -> Place:
    """Return a line with its share multiplied."""
    return Place(near(line.file), line.line, line.code, min(1.0, times * line.share), line.runs_per_step)


def places(look: HostProfile | None, of: float) -> tuple[Place, ...]:
    """Return the lines that take most of what was looked at, their shares as parts of `of` the step."""
    if look is None:
        return ()
    return tuple(place(line, of) for line in look.lines[:_MOST] if line.share >= _WORTH)
