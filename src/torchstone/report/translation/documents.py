"""A Document in another language: every text in it, but commands, and names that strangers gave."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, assert_never

from msgspec.structs import replace

from torchstone.core.charts.vega_lite import Panel, Picture, channels
from torchstone.core.messages import filled
from torchstone.core.schema.estimate import Finding
from torchstone.report.document import Chart, Column, CommandLine, Document, Doubt, Fields, Part, Section, Table, Text
from torchstone.report.translation.catalogue import catalogue
from torchstone.report.translation.language import current_language
from torchstone.report.translation.translator import exact, translation

Say = Callable[[str], str]

# Columns and facts whose values are names: what a machine, a file or a person is called is no text.
_NAMES = frozenset(
    {
        "card",
        "class",
        "document",
        "driver",
        "file",
        "folder",
        "from run",
        "governor",
        "hostname",
        "name",
        "platform",
        "processor",
        "record",
        "run",
        "software",
        "table",
        "training",
        "written",
        "Host",
        "Experiment",
        "Run",
        "Processor",
        "Device",
        "Model",
        "host",
        "model",
        "on",
    }
)
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
    return translated(document, current_language())


def _parts(parts: tuple[Part, ...], say: Say, language: str) -> tuple[Part, ...]:
    return tuple(_part(part, say, language) for part in parts)


def _part(part: Part, say: Say, language: str) -> Part:
    match part:
        case Text():
            return replace(part, text=say(part.text))
        case CommandLine():
            return part
        case Fields():
            return Fields(tuple((say(name), value if name in _NAMES else say(value)) for name, value in part.rows))
        case Table():
            return replace(part, columns=tuple(_column(one, say) for one in part.columns), how=say(part.how))
        case Chart():
            return replace(part, says=say(part.says), picture=_picture(part.picture, say, language))
        case Doubt():
            message, advice = say(part.message), say(part.advice)
            if part.finding is not None and part.finding.words is None:
                message, advice = _finding_texts(part.finding, language)
            return replace(part, subject=_subject(part.subject, say), message=message, advice=advice)
        case Section():
            parts = _parts(part.parts, say, language)
            return replace(part, title=say(part.title), parts=parts, how=say(part.how))
        case _:
            assert_never(part)


def _finding_texts(finding: Finding, language: str) -> tuple[str, str]:
    """Return message and advice of a finding; what has no translation is English."""
    texts = catalogue(language).texts
    message, *advice = (
        filled(texts.get(one, one), finding.values) for one in (finding.texts.message, *finding.advised)
    )
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
    told = {own["field"]: say for key, own in channels(panel) if key == "text"}
    told |= {own["field"]: name for _, own in channels(panel) if own.get("type") in ("ordinal", "nominal")}

    def spoken_part(part: Any, key: str = "") -> Any:
        """Return a part of a view: titles, the names of scales, and the columns of rows that have names or words."""
        if key in ("domain", "sort") and isinstance(part, list):
            return [name(one) if isinstance(one, str) else one for one in part]
        if key == "title" and isinstance(part, str):
            return say(part)
        if key == "values" and part and isinstance(part[0], dict):
            return [
                {of: told[of](one) if of in told and isinstance(one, str) else one for of, one in row.items()}
                for row in part
            ]
        if isinstance(part, dict):
            return {of: spoken_part(one, of) for of, one in part.items()}
        return [spoken_part(one) for one in part] if isinstance(part, list) else part

    titles = {"title": say(panel.title), "subtitle": say(panel.subtitle), "group": say(panel.group)}
    return replace(panel, view=spoken_part(panel.view), **titles)
