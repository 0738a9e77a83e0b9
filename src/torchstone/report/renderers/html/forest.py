"""Ratios as a forest plot: an interval a row over a logarithmic axis, the line at 1, the band that does not matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from torchstone.core import units
from torchstone.report.document import Ratio, Ratios
from torchstone.report.renderers.html.tables import verdict
from torchstone.report.translation.spoken import said

_ORDER = ("worse", "better", "unclear", "same")  # what asks for something to be done first; all else comes last
_REACH = 1.5  # times as far from 1 as ratios and most ends the axis goes; ends that lie farther are cut and marked
_MOST_ENDS = 0.75  # of the ends: a few very wide intervals do not make all others dots
_LEAST = 0.02  # of a logarithm: no axis is shorter than this on either side
_MOST = math.log(1e3)
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
_TICKS = 7
FOREST_COLUMNS = 5  # of the table that it is drawn in


class Axis(NamedTuple):
    """A logarithmic axis of ratios: the logs of its ends."""

    first: float
    last: float

    def place(self, ratio: float) -> float:
        """Return where a ratio stands, in percent of the width; outside of 0 to 100 what the axis does not reach."""
        return 100.0 * (math.log(ratio) - self.first) / (self.last - self.first)


class Row(NamedTuple):
    """One interval. `low`, `high`: exact, "" where there is none; `start`, `end`, `at`: percent of the width.

    `cut_low`, `cut_high`: whether that end lies outside of the axis.
    """

    case: str
    figure: str
    word: str
    verdict: Markup
    ratio: str
    low: str
    high: str
    higher: bool
    start: str = ""
    end: str = ""
    at: str = ""
    cut_low: bool = False
    cut_high: bool = False


class Forest(NamedTuple):
    """A plot. `place`: its id in the page; `band`: where it begins, and its width, in percent of the axis.

    `one`, `ticks`: where the line at 1 stands, and the others with their words.
    """

    place: str
    margin: float
    percent: str
    level: str
    rows: tuple[Row, ...]
    counts: tuple[tuple[str, int], ...]
    axis: Axis
    one: str
    band: tuple[str, str]
    ticks: tuple[tuple[str, str], ...]


def forest(part: Ratios, place: str, most: int | None = None) -> Forest:
    """Return the plot of ratios, those with a decision first. `place`: its id in the page; `most`: rows, None: all."""
    axis = _axis(part)
    words = [one.verdict.replace("_", " ") for one in part.rows]
    order = [*_ORDER, *(word for word in dict.fromkeys(words) if word not in _ORDER)]
    ranked = sorted(zip(words, part.rows, strict=True), key=lambda pair: order.index(pair[0]))
    counted = Counter(words)
    low, high = (_inside(axis.place(end)) for end in (1.0 / (1.0 + part.margin), 1.0 + part.margin))
    return Forest(
        place, part.margin, f"{100.0 * part.margin:.4g} %", f"{100.0 * part.level:.4g} %",
        tuple(_row(one, word, axis) for word, one in ranked[:most]),
        tuple((word, counted[word]) for word in order), axis, _percent(axis.place(1.0)),
        (_percent(low), _percent(high - low)),
        tuple((_percent(axis.place(value)), f"{value:g}") for value in _ticks(axis)),
    )  # fmt: skip


def _row(one: Ratio, word: str, axis: Axis) -> Row:
    low, high = _known(one.low), _known(one.high)
    ratio = said(units.ratio(one.ratio, low, high)) if one.ratio is not None else units.MISSING
    row = Row(
        one.case, one.figure, word, verdict(said(word), word), ratio, _exact(low), _exact(high), one.higher_is_better
    )
    if low is not None and high is not None:
        start, end = axis.place(low), axis.place(high)
        row = row._replace(
            start=_percent(_inside(start)), end=_percent(_inside(end)), cut_low=start < 0.0, cut_high=end > 100.0
        )
    if (value := _known(one.ratio)) is not None:
        row = row._replace(at=_percent(_inside(axis.place(value))))
    return row


def _known(ratio: float | None) -> float | None:
    """Return a ratio that has a logarithm, else None: a record may bring anything."""
    return ratio if ratio is not None and math.isfinite(ratio) and ratio > 0.0 else None


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _inside(place: float) -> float:
    return min(100.0, max(0.0, place))


def _percent(place: float) -> str:
    return f"{place:.2f}%"


def _axis(part: Ratios) -> Axis:
    """Return the axis that shows every ratio, the band, and of the intervals what does not lie far outside."""
    band = math.log1p(part.margin)
    ratios = [math.log(value) for one in part.rows if (value := _known(one.ratio)) is not None]
    ends = [math.log(v) for one in part.rows for end in (one.low, one.high) if (v := _known(end)) is not None]
    far = sorted(map(abs, ends))
    usual = far[int(_MOST_ENDS * (len(far) - 1))] if far else 0.0
    reach = min(_MOST, _REACH * max([_LEAST, 2.0 * band, usual, *map(abs, ratios)]))
    first = max(-reach, min([-_LEAST, -1.5 * band, *ratios, *ends]))
    last = min(reach, max([_LEAST, 1.5 * band, *ratios, *ends]))
    aside = 0.04 * (last - first)
    return Axis(first - aside, last + aside)


def _ticks(axis: Axis) -> Iterator[float]:
    """Yield round ratios along the axis, 1 among them, seven at most."""
    first, last = math.exp(axis.first), math.exp(axis.last)
    for step in _STEPS:
        below, above = int((1.0 - first) / step), int((last - 1.0) / step)
        if below + above < _TICKS:
            yield from (1.0 + n * step for n in range(-below, above + 1))
            return
    for base in (2.0, 10.0):
        below, above = int(-axis.first / math.log(base)), int(axis.last / math.log(base))
        if below + above < _TICKS:
            yield from (base**n for n in range(-below, above + 1))
            return
    yield 1.0
