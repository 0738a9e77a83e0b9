"""A Document in another language: every text in it, but commands, and names that strangers gave."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from msgspec.structs import asdict, replace

from torchstone.core.charts.picture import Colours, Coordinate, Kind, Mark, Panel, Picture, Words
from torchstone.core.messages import filled
from torchstone.core.schema.estimate import Finding
from torchstone.report.document import (
    Chart,
    Column,
    Command,
    Document,
    Doubt,
    Facts,
    Part,
    Section,
    Table,
    Text,
)  # fmt: skip
from torchstone.report.translation.catalogue import catalogue
from torchstone.report.translation.spoken import spoken
from torchstone.report.translation.translator import exact, translation

Say = Callable[[str], str]

# Columns and facts whose values are names: what a machine, a file or a person is called is no text.
_NAMES = frozenset({
    "card", "class", "document", "driver", "file", "folder", "from run", "governor", "hostname", "name", "platform",
    "processor", "record", "run", "software", "table", "training", "written", "Host", "Experiment", "Run", "Processor",
    "Device", "Model", "host", "model", "on",
})  # fmt: skip
_CHECKS = "why"  # the column of names of checks
_NUMBERED = re.compile(r"trial \d+|.{1,80} \(ceiling\)")  # names in legends that are made of words of ours
_TYPED = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")  # step_time


def translated(document: Document, language: str) -> Document:
    """Return the Document in a language. Raises UsageError for one that there is not.

    What has no translation stays English. Numbers, units, commands and names stay as they are.
    """
    if language == document.language:
        return document

    def say(text: str) -> str:
        return translation(text, language)

    return replace(document, title=say(document.title), parts=_parts(document.parts, say, language), language=language)


def in_spoken_language(document: Document) -> Document:
    """Return the Document in the language that is spoken (spoken.py)."""
    return translated(document, spoken())


def _parts(parts: tuple[Part, ...], say: Say, language: str) -> tuple[Part, ...]:
    return tuple(_part(part, say, language) for part in parts)


def _part(part: Part, say: Say, language: str) -> Part:
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
        case Doubt():
            message, advice = say(part.message), say(part.advice)
            if part.finding is not None and part.finding.words is None:
                message, advice = _found(part.finding, language)
            return replace(part, subject=_subject(part.subject, say), message=message, advice=advice)
        case Section():
            parts = _parts(part.parts, say, language)
            return replace(part, title=say(part.title), parts=parts, how=say(part.how))
        case _:
            assert_never(part)


def _found(finding: Finding, language: str) -> tuple[str, str]:
    """Return message and advice of a finding; what has no translation is English."""
    texts = catalogue(language).texts
    message, *advice = (filled(texts.get(one, one), finding.values) for one in (finding.said.message, *finding.advised))
    return message, "; ".join(advice)


def _subject(subject: str, say: Say) -> str:
    """Return of what there is doubt; the name of the check before it stays, as it is what people look for."""
    check, joint, rest = subject.partition(": ")
    return f"{check}{joint}{say(rest)}" if joint and " " not in check else say(subject)


def _column(column: Column, say: Say) -> Column:
    title = column.title
    if column.shorten or title in _NAMES:
        return replace(column, title=say(title))
    typed = title == _CHECKS or any(map(_TYPED.fullmatch, column.cells))  # names that people type, or look for
    cells = tuple(cell if typed and " " not in cell else say(cell) for cell in column.cells)
    return replace(column, title=say(title), cells=cells)


def _picture(picture: Picture, say: Say, language: str) -> Picture:
    def name(text: str) -> str:
        return say(text) if _NUMBERED.fullmatch(text) else exact(text, language)

    panels = tuple(_panel(panel, say, name) for panel in picture.panels)
    return replace(picture, title=say(picture.title), subtitle=say(picture.subtitle), panels=panels)


def _panel(panel: Panel, say: Say, name: Say) -> Panel:
    """Return a panel whose titles are said, and whose names along axes and in legends are, where they are ours."""
    axes = [panel.x, *(one for mark in panel.marks for one in asdict(mark).values() if isinstance(one, Coordinate))]
    named = {axis.column for axis in axes if axis.kind != Kind.NUMBERS}
    named |= {panel.colours.column} if panel.colours is not None else set()
    figures = {mark.word for mark in panel.marks if isinstance(mark, Words) and mark.aside}
    return replace(
        panel, title=say(panel.title), subtitle=say(panel.subtitle), group=say(panel.group),
        x=_axis(panel.x, say, name), marks=tuple(_mark(mark, named, say, name) for mark in panel.marks),
        values=_values(_values(panel.values, named, name), figures, say), colours=_colours(panel.colours, name),
    )  # fmt: skip


def _mark(mark: Mark, named: set[str], say: Say, name: Say) -> Mark:
    """Return a mark, of whatever kind: its axes, its title, its own values, and its word, or the column of words."""
    fields = asdict(mark)
    new: dict[str, Any] = {key: _axis(one, say, name) for key, one in fields.items() if isinstance(one, Coordinate)}
    if "title" in fields:
        new["title"] = say(fields["title"])
    if "values" in fields:
        new["values"] = _values(fields["values"], named, name)
        word = fields.get("word", "")
        if any(word in row for row in fields["values"]):
            new["values"] = _values(new["values"], {word}, say)
        elif word:
            new["word"] = say(word)
    return replace(mark, **new)


def _axis(axis: Coordinate, say: Say, name: Say) -> Coordinate:
    return replace(axis, title=say(axis.title), places=tuple(map(name, axis.places)))


def _colours(colours: Colours | None, name: Say) -> Colours | None:
    return None if colours is None else replace(colours, names=tuple(map(name, colours.names)))


def _values(values: tuple[Mapping[str, Any], ...], columns: set[str], say: Say) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {key: say(value) if key in columns and isinstance(value, str) else value for key, value in row.items()}
        for row in values
    )
