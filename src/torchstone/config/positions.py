"""Where a key stands in a run file, and how its path is written."""

from __future__ import annotations

from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
Position = tuple[int, int]  # line and column, counted from 1


def key_text(path: KeyPath) -> str:
    """Return a path as a person writes it: ("workloads", 0, "axes") → workloads[0].axes."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def moved(positions: dict[KeyPath, Position], old: KeyPath, new: KeyPath) -> None:
    """Let `new` and everything below it stand where `old` stands."""
    found: Mapping[KeyPath, Position] = {p: at for p, at in positions.items() if p[: len(old)] == old}
    for path, at in found.items():
        positions.setdefault((*new, *path[len(old) :]), at)
