"""JSON with positions. NaN and Infinity are not JSON; a duplicate key is an error."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from torchstone.config.positions import KeyPath, Position, key_text
from torchstone.core.errors import UsageError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def read_json(text: str, name: str) -> tuple[Any, dict[KeyPath, Position]]:
    """Return the data of a JSON text and where each key stands. Raises UsageError, one line, with its position."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{name}:{fault.lineno}:{fault.colno}: not JSON: {fault.msg}") from None
    except ValueError as fault:
        raise UsageError(f"{name}:1:1: not JSON: {fault}") from None
    return data, _positions(text, name)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _positions(text: str, name: str) -> dict[KeyPath, Position]:
    """Walk the tokens of sound JSON. `stack`: a list's present index, a mapping's present key (None before one)."""
    positions: dict[KeyPath, Position] = {}
    stack: list[str | int | None] = []
    line, counted, line_start = 1, 0, 0
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        line += text.count("\n", counted, start)
        line_start = max(line_start, text.rfind("\n", counted, start) + 1)
        counted = start
        if token in "}]":
            stack.pop()
        elif token == ",":
            last = stack[-1]
            stack[-1] = last + 1 if isinstance(last, int) else None
        elif token != ":":
            here = (line, start - line_start + 1)
            if stack and stack[-1] is None:
                stack[-1] = str(json.loads(token))
                path = tuple(step for step in stack if step is not None)
                if path in positions:
                    raise UsageError(f"{name}:{here[0]}:{here[1]}: {key_text(path)}: duplicate key")
                positions[path] = here
                continue
            positions.setdefault(tuple(step for step in stack if step is not None), here)
            if token in "{[":
                stack.append(None if token == "{" else 0)
    return positions
