"""Files that the seed documents print, word for word, and what stands in their reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent / "printed"


def printed(name: str) -> str:
    """Return the text of a file as a document prints it."""
    return (HERE / name).read_text(encoding="utf-8")


def blocks(text: str) -> Mapping[str, Mapping[str, str]]:
    """Return, for each block ([SYSTEM], …) of a report, what stands after the colon of each of its lines.

    A line without a colon stands under its own text.
    """
    found: dict[str, dict[str, str]] = {}
    for title, body in re.findall(r"^\[([A-Z0-9 ]+)\]\n((?:  .*\n?)+)", text, re.MULTILINE):
        lines = [line.strip() for line in body.splitlines()]
        found[title] = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return found
