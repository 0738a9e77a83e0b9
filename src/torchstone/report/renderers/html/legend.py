"""What the tables of many cases explain in the same words: said once, above them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from torchstone.report.document import Column, Part, Section, Table

_MANY = 12  # sections that say the same, from which on it is said once


class Legend(NamedTuple):
    """Names of figures with what they are, and the parts without those explanations."""

    words: Mapping[str, str]
    parts: tuple[Part, ...]


def with_legend(parts: Sequence[Part]) -> Legend:
    """Take out of tables without titles what their last column says of a name in the same words twelve times or more.

    A name that is explained in several ways keeps each of them where it is.
    """
    told: dict[str, dict[str, int]] = {}
    for table in _tables(parts):
        for name, words in zip(table.columns[0].cells, table.columns[-1].cells, strict=True):
            if words:
                one = told.setdefault(name, {})
                one[words] = one.get(words, 0) + 1
    found = {name: next(iter(one)) for name, one in told.items() if len(one) == 1 and max(one.values()) >= _MANY}
    return Legend(found, tuple(_without(part, found) for part in parts) if found else tuple(parts))


def legend_section(words: Mapping[str, str]) -> Section:
    """Return what the figures are, folded."""
    columns = Column("figure", tuple(words), left=True), Column("what it is", tuple(words.values()), left=True)
    return Section("What the figures are", (Table(columns),), folded=True)


def _is_explained(part: Part) -> bool:
    return (
        isinstance(part, Table) and len(part.columns) > 2 and part.columns[-1].left
        and not any(column.title for column in part.columns)
    )  # fmt: skip


def _tables(parts: Sequence[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Section):
            yield from _tables(part.parts)
        elif isinstance(part, Table) and _is_explained(part):
            yield part


def _without(part: Part, words: Mapping[str, str]) -> Part:
    if isinstance(part, Section):
        return msgspec.structs.replace(part, parts=tuple(_without(one, words) for one in part.parts))
    if not isinstance(part, Table) or not _is_explained(part):
        return part
    *kept, last = part.columns
    cells = tuple("" if words.get(name) == cell else cell for name, cell in zip(kept[0].cells, last.cells, strict=True))
    columns = (*kept, msgspec.structs.replace(last, cells=cells)) if any(cells) else tuple(kept)
    return msgspec.structs.replace(part, columns=columns)
