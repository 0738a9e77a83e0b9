"""JSON and where everything in it stands. NaN and Infinity are not JSON; a duplicate key is an error."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from torchstone.config.positions import Layout, LayoutBuilder
from torchstone.core.errors import UsageError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def read_json(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a JSON text and its Layout. Raises UsageError, one line, with its position."""
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as fault:
        raise UsageError(f"{name}:{fault.lineno}:{fault.colno}: not JSON: {fault.msg}") from None
    except ValueError as fault:
        raise UsageError(f"{name}:1:1: not JSON: {fault}") from None
    return data, _layout(text)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _layout(text: str) -> Layout:
    build = LayoutBuilder()
    for match in _TOKEN.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        if token in "{[":
            build.enter(start, mapping=token == "{", flow=True)
        elif token in "}]":
            build.leave(end)
        elif token not in ":,":
            if build.wants_key:
                build.key(str(json.loads(token)), start, end)
            else:
                build.value(start, end)
    return build.places
