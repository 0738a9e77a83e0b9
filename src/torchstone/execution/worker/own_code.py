"""Whose a file is: the user's own, or a library's, the interpreter's, ours."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

_OURS = Path(__file__).resolve().parents[2]
_LIBRARIES = ("site-packages", "dist-packages")
_INTERPRETER = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})


@cache
def is_own(file: str) -> bool:
    """Say whether a code object's file is the user's own. What was made of a string has none."""
    if file.startswith("<") or not file.endswith(".py"):
        return False
    path = Path(file)
    if any(part in _LIBRARIES for part in path.parts) or any(path.is_relative_to(there) for there in _INTERPRETER):
        return False
    return not path.resolve().is_relative_to(_OURS)
