"""The specification of a picture: panels of marks over two axes. Who makes one chooses data and words, not looks.

Marks name columns of their values. How it all looks (colours, sizes of dots, legends, grids) is decided in one place,
vega_lite.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

Values = tuple[Mapping[str, Any], ...]


class Kind(StrEnum):
    """What stands along an axis."""

    NUMBERS = "quantitative"
    STEPS = "ordinal"  # such as batch sizes, side by side however far apart
    NAMES = "nominal"


class Coordinate(msgspec.Struct, frozen=True):
    """One axis, and the column along it.

    `places`: all that have a place, in order, with or without a value (not of numbers). `from_zero`: numbers begin at 0
    and not at the least. `whole`: they are counted. `logarithmic`: equal ratios are equally long (numbers above 0), and
    what is counted has its number at each value; `ends`: the least and the most that is shown, for panels that are to
    be read beside each other; `ticks`: what has its number; none: as Vega chooses.
    """

    column: str
    title: str
    kind: Kind = Kind.NUMBERS
    places: tuple[str, ...] = ()
    from_zero: bool = True
    whole: bool = False
    logarithmic: bool = False
    ends: tuple[float, float] | None = None
    ticks: tuple[float, ...] = ()


class Colours(msgspec.Struct, frozen=True):
    """A colour for each name of a column. `shades`: as many (#rrggbb); none: those of the palette, in turn.

    `shapes`: of dots, as many; none: they are round.
    """

    column: str
    names: tuple[str, ...]
    shades: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()


class Line(msgspec.Struct, frozen=True, tag="line", tag_field="mark"):
    """A line through points, which have dots where they are few. `labelled`: with their values.

    `piece`: a column; points whose values of it differ are not joined. `faint`: thin, for what stands behind another.
    """

    y: Coordinate
    labelled: bool = False
    piece: str | None = None
    faint: bool = False


class Dots(msgspec.Struct, frozen=True, tag="dots", tag_field="mark"):
    """Points."""

    y: Coordinate


class Interval(msgspec.Struct, frozen=True, tag="interval", tag_field="mark"):
    """From one column to another, along y; nothing where either is missing."""

    y: Coordinate
    low: str = "low"
    high: str = "high"


class Bars(msgspec.Struct, frozen=True, tag="bars", tag_field="mark"):
    """Bars whose coloured parts are stacked, by rising `order`. `shares`: each bar is a whole."""

    y: Coordinate
    order: str
    shares: bool = False


class Cells(msgspec.Struct, frozen=True, tag="cells", tag_field="mark"):
    """A matrix: each cell as dark as its `share`, 0 to 1. `number`: the column whose values are written into them."""

    y: Coordinate
    share: str
    title: str
    number: str | None = None


class Level(msgspec.Struct, frozen=True, tag="level", tag_field="mark"):
    """A horizontal line from one x to another."""

    y: Coordinate
    start: str
    end: str
    values: Values


class Divider(msgspec.Struct, frozen=True, tag="divider", tag_field="mark"):
    """A vertical line with a word beside its upper end."""

    word: str
    values: Values


class Failure(msgspec.Struct, frozen=True, tag="failure", tag_field="mark"):
    """A word at the place along x that has no value."""

    word: str
    values: Values


class Reach(msgspec.Struct, frozen=True, tag="reach", tag_field="mark"):
    """From one column to another, along x; nothing where either is missing. An end beyond the axis has an arrow."""

    y: Coordinate
    low: str = "low"
    high: str = "high"


class Band(msgspec.Struct, frozen=True, tag="band", tag_field="mark"):
    """The area between two columns along x, over y: where a curve that rises may lie."""

    y: Coordinate
    low: str = "low"
    high: str = "high"


class Guide(msgspec.Struct, frozen=True, tag="guide", tag_field="mark"):
    """A dashed line through points of its own, in the colours of the panel: a limit, not a measurement."""

    y: Coordinate
    values: Values


class Stretch(msgspec.Struct, frozen=True, tag="stretch", tag_field="mark"):
    """A part of the x axis that is shaded from top to bottom, from one column to another."""

    start: str
    end: str
    values: Values


class Words(msgspec.Struct, frozen=True, tag="words", tag_field="mark"):
    """A short text beside each point, or `aside`, right of the panel."""

    y: Coordinate
    word: str
    aside: bool = False


Mark = Line | Dots | Interval | Bars | Cells | Level | Divider | Failure | Reach | Band | Guide | Stretch | Words


class Panel(msgspec.Struct, frozen=True):
    """One chart. `group`: neighbours of one group stand under this title. Sizes are in points, without axes."""

    title: str
    x: Coordinate
    marks: tuple[Mark, ...]
    values: Values
    colours: Colours | None = None
    subtitle: str = ""
    group: str = ""
    width: int = 320
    height: int = 220


class Picture(msgspec.Struct, frozen=True):
    """Panels in rows of `columns`. `one_legend`: they have colours in common."""

    title: str
    panels: tuple[Panel, ...]
    subtitle: str = ""
    columns: int = 3
    one_legend: bool = False
