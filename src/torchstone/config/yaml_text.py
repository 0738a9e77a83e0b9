"""YAML 1.2 with positions. `1e-5` is a number, `off` is a word, a duplicate key is an error."""

from __future__ import annotations

from typing import Any

from torchstone.config.positions import KeyPath, Position, key_text
from torchstone.core.errors import UsageError

_MOST_NODES = 100_000


def read_yaml(text: str, name: str) -> tuple[Any, dict[KeyPath, Position]]:
    """Return the data of a YAML text and where each key stands. Raises UsageError, one line, with its position."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(text)
        positions: dict[KeyPath, Position] = {}
        if root is not None:
            _walk(root, positions, name)
        return YAML(typ="safe", pure=True).load(text), positions
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        raise UsageError(f"{at}: not YAML: {fault.problem or fault.context}") from None
    except YAMLError as fault:
        raise UsageError(f"{name}:1:1: not YAML: {' '.join(str(fault).split())[:200]}") from None
    except ValueError as fault:  # a value with the form of a number or date that is none: 2026-13-45
        raise UsageError(f"{name}:1:1: not YAML: {fault}") from None


def _walk(root: Any, positions: dict[KeyPath, Position], name: str) -> None:
    """Note where each key stands. Aliases are followed, with a limit: a few lines can stand for a billion nodes."""
    waiting: list[tuple[Any, KeyPath]] = [(root, ())]
    visited = 0
    while waiting:
        node, path = waiting.pop()
        visited += 1
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if visited > _MOST_NODES or len(path) > 50:
            raise UsageError(f"{name}:{line}:{column}: too many values or too deep, aliases followed")
        positions.setdefault(path, (line, column))
        if not isinstance(node.value, list):
            continue
        seen: set[str] = set()
        for index, inner in enumerate(node.value):
            if not isinstance(inner, tuple):
                waiting.append((inner, (*path, index)))
                continue
            key, value = inner
            here = (key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key.value, str):
                raise UsageError(f"{name}:{here[0]}:{here[1]}: a key must be a word, not a list or a mapping")
            if key.value in seen:
                what = f"{key_text((*path, key.value))}: duplicate key"
                raise UsageError(f"{name}:{here[0]}:{here[1]}: {what}")
            seen.add(key.value)
            positions[*path, key.value] = here
            waiting.append((value, (*path, key.value)))
