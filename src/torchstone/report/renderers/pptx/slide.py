"""Slides before they are drawn: boxes in points, in which all text has room by a conservative measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from torchstone.core.charts.picture import Picture
from torchstone.core.plain_text import plain
from torchstone.report.renderers._measuring import lines
from torchstone.report.renderers._typeface import typeface

WIDTH, HEIGHT = 960.0, 540.0  # points: 16:9
MARGIN, TOP, BOTTOM = 40.0, 88.0, 500.0  # of what stands below the title and above the foot
ACROSS, TALL = WIDTH - 2 * MARGIN, BOTTOM - TOP
LINE_HEIGHT = 1.25  # of the size
BOLDER = 1.2  # than the same letters that are not bold
_WIDER = 1.12  # than the shipped typeface is the widest that a program puts in place of the slides' own
_MONOSPACED = 0.62  # em of any character


class Style(StrEnum):
    """How a paragraph looks."""

    ANSWER = "answer"
    BODY = "body"
    SUBTITLE = "subtitle"
    FINDING = "finding"
    COMMAND = "command"
    SMALL = "small"


SIZES = {
    Style.ANSWER: 22.0, Style.BODY: 14.0, Style.SUBTITLE: 15.0, Style.FINDING: 14.0, Style.COMMAND: 12.0,
    Style.SMALL: 11.0,
}  # fmt: skip


class Box(msgspec.Struct, frozen=True):
    """A rectangle on a slide, in points."""

    left: float
    top: float
    width: float
    height: float


class Words(msgspec.Struct, frozen=True):
    """A paragraph. `label`: its first words, which stand out."""

    box: Box
    text: str
    style: Style
    label: str = ""


class Grid(msgspec.Struct, frozen=True):
    """A native table. `titles`: of its columns; none where it has no head. `says`: to who cannot see it."""

    box: Box
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[float, ...]
    heights: tuple[float, ...]  # of all rows, the titles first
    right: tuple[bool, ...]
    says: str


class Image(msgspec.Struct, frozen=True):
    """A picture, as large as its box allows. `says`: to who cannot see it."""

    box: Box
    picture: Picture
    says: str


Shape = Words | Grid | Image


class Slide(msgspec.Struct, frozen=True):
    """A slide: its title, what stands below, and a speaker's notes."""

    title: str
    shapes: tuple[Shape, ...]
    notes: tuple[str, ...]
    first: bool = False


def line_of(text: object) -> str:
    """Return text of one line that XML can contain."""
    return plain(text).strip()


def width(text: str, size: float) -> float:
    """Return the width of a line in the widest typeface that it may be shown in."""
    return _WIDER * typeface().width(text, size)


def height(text: str, style: Style, across: float = ACROSS) -> float:
    """Return the height of a paragraph."""
    size = SIZES[style]
    if style == Style.COMMAND:
        return LINE_HEIGHT * size * lines(text, across, lambda word: _MONOSPACED * size * len(word))
    bolder = BOLDER if style in (Style.ANSWER, Style.SUBTITLE) else 1.0
    return LINE_HEIGHT * size * lines(text, across, lambda word: bolder * width(word, size))


def dealt(heights: Sequence[float], first: float, others: float) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of the rows of each slide: those of the first fill at most a height, others another."""
    begin, taken, room = 0, 0.0, first
    for end, one in enumerate(heights):
        if end > begin and taken + one > room:
            yield begin, end
            begin, taken, room = end, 0.0, others
        taken += one
    yield begin, len(heights)
