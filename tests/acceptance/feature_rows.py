"""The rows of docs/features.md, one file a seed document under features/, and the page that is made of them.

    python tests/acceptance/feature_rows.py        writes docs/features.md anew

A row names features of a seed document by their IDs: `printed` are commands as the document prints them, `typed` what
the tests of this folder type for them; `state` says what became of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "features.md"
SEEDS = ("s0", "s1", "s2", "s3", "s4")
LAST = {"s0": 64, "s1": 69, "s2": 51, "s3": 75, "s4": 61}  # IDs are S0-01 to S0-64, …
STATES = ("as the seed", "differs by design", "needs a device", "later", "untried")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`why`: of every state but "as the seed"; `tried`: the day it was typed for real (YYYY-MM-DD)."""

    ids: tuple[str, ...]
    feature: str
    how: str
    printed: tuple[str, ...]
    typed: tuple[str, ...]
    state: str
    why: str
    tried: str
    tests: tuple[str, ...]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    row: tuple[Row, ...]


def rows(seed: str) -> tuple[Row, ...]:
    """Return the rows of one seed document (`s0` to `s4`)."""
    return msgspec.toml.decode((HERE / "features" / f"{seed}.toml").read_bytes(), type=_File).row


def row_of(feature_id: str) -> Row:
    """Return the row that names an ID. Raises KeyError where none does."""
    for row in rows(feature_id[:2].lower()):
        if feature_id in row.ids:
            return row
    raise KeyError(feature_id)


def page() -> str:
    """Return the text of docs/features.md: its own words, with the tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    for seed in SEEDS:
        mark = f"<!-- {seed}.toml -->\n"
        before, found, after = text.partition(mark)
        if not found:
            raise ValueError(f"docs/features.md has no line {mark.strip()}")
        rest = re.sub(r"\A(\|.*\n)*", "", after)
        text = before + mark + _table(rows(seed)) + rest
    return text


def _table(of: Sequence[Row]) -> str:
    lines = ["| ID | feature | how | typed | state | test |", "|---|---|---|---|---|---|"]
    for row in of:
        state = ", ".join(filter(None, (row.state, row.tried))) + (f": {row.why}" if row.why else "")
        cells = [", ".join(row.ids), row.feature, row.how, _code(row.typed), state, _code(row.tests)]
        lines.append(f"| {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _code(words: Sequence[str]) -> str:
    escaped = (word.replace("|", r"\|") for word in words)
    return ", ".join(f"`{word}`" for word in escaped) or "–"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
