"""A Document in another language: every text in it, but commands, and names that strangers gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec

from torchstone.core.charts.picture import Colours, Coordinate, Divider, Failure, Kind, Panel, Picture
from torchstone.report.document import (
    Chart, Column, Command, Document, Doubt, Facts, Part, Ratios, Section, Table, Text,
)  # fmt: skip
from torchstone.report.translation.catalogue import ENGLISH
from torchstone.report.translation.spoken import spoken
from torchstone.report.translation.translator import exact, translation

Say = Callable[[str], str]

# Columns and facts whose values are names: what a machine, a file or a person is called is no text.
_NAMES = frozenset({
    "card", "class", "document", "driver", "file", "folder", "from run", "governor", "hostname", "name", "platform",
    "processor", "record", "run", "software", "table", "training", "written", "Host", "Experiment", "Run", "Processor",
    "Device", "Model", "device", "host", "model",
})  # fmt: skip


def translated(document: Document, language: str) -> Document:
    """Return the Document in a language. Raises UsageError for one that there is not.

    What has no translation stays English. Numbers, units, commands and names stay as they are.
    """
    if language == ENGLISH == document.language:
        return document

    def say(text: str) -> str:
        return translation(text, language)

    return msgspec.structs.replace(
        document, title=say(document.title), parts=_parts(document.parts, say, language), language=language
    )


def in_spoken_language(document: Document) -> Document:
    """Return the Document in the language that is spoken (spoken.py)."""
    return translated(document, spoken())


def _parts(parts: tuple[Part, ...], say: Say, language: str) -> tuple[Part, ...]:
    return tuple(_part(part, say, language) for part in parts)


def _part(part: Part, say: Say, language: str) -> Part:
    replace = msgspec.structs.replace
    match part:
        case Text():
            return replace(part, text=say(part.text))
        case Command():
            return part
        case Facts():
            return Facts(tuple((say(name), value if name in _NAMES else say(value)) for name, value in part.rows))
        case Table():
            return replace(part, columns=tuple(_column(one, say) for one in part.columns), how=say(part.how))
        case Chart():
            return replace(part, says=say(part.says), picture=_picture(part.picture, say, language))
        case Ratios():
            return part  # names, and verdicts that renderers draw
        case Doubt():
            return replace(part, subject=say(part.subject), message=say(part.message), advice=say(part.advice))
        case Section():
            parts = _parts(part.parts, say, language)
            return replace(part, title=say(part.title), parts=parts, how=say(part.how))
        case _:
            assert_never(part)


def _column(column: Column, say: Say) -> Column:
    cells = column.cells if column.shorten or column.title in _NAMES else tuple(map(say, column.cells))
    return msgspec.structs.replace(column, title=say(column.title), cells=cells)


def _picture(picture: Picture, say: Say, language: str) -> Picture:
    panels = tuple(_panel(panel, say, lambda text: exact(text, language)) for panel in picture.panels)
    return msgspec.structs.replace(picture, title=say(picture.title), subtitle=say(picture.subtitle), panels=panels)


def _panel(panel: Panel, say: Say, name: Say) -> Panel:
    """Return a panel whose titles are said, and whose names along axes and in legends are, where they are ours."""
    replace = msgspec.structs.replace
    named = {axis.column for axis in _axes(panel) if axis.kind != Kind.NUMBERS}
    named |= {panel.colours.column} if panel.colours is not None else set()
    marks = []
    for mark in panel.marks:
        changed: dict[str, Any] = {"y": _axis(mark.y, say, name)} if not isinstance(mark, Divider | Failure) else {}
        if isinstance(mark, Divider | Failure):
            changed["values"] = _values(mark.values, {mark.word}, say)
        elif hasattr(mark, "title"):
            changed["title"] = say(mark.title)
        marks.append(replace(mark, **changed))
    return replace(
        panel, title=say(panel.title), subtitle=say(panel.subtitle), group=say(panel.group), marks=tuple(marks),
        x=_axis(panel.x, say, name), values=_values(panel.values, named, name), colours=_colours(panel.colours, name),
    )  # fmt: skip


def _axes(panel: Panel) -> list[Coordinate]:
    return [panel.x, *(mark.y for mark in panel.marks if not isinstance(mark, Divider | Failure))]


def _axis(axis: Coordinate, say: Say, name: Say) -> Coordinate:
    return msgspec.structs.replace(axis, title=say(axis.title), places=tuple(map(name, axis.places)))


def _colours(colours: Colours | None, name: Say) -> Colours | None:
    return None if colours is None else msgspec.structs.replace(colours, names=tuple(map(name, colours.names)))


def _values(values: tuple[Mapping[str, Any], ...], columns: set[str], say: Say) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {key: say(value) if key in columns and isinstance(value, str) else value for key, value in row.items()}
        for row in values
    )
