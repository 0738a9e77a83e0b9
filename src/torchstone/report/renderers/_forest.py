"""Ratios as a forest plot: intervals on a logarithmic scale around 1, with the band of the equivalence margin."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from torchstone.core import units
from torchstone.report.document import Part, Ratio, Ratios
from torchstone.report.translation.spoken import said

_ORDER = ("worse", "better", "unclear", "same")  # what asks for something to be done first; other words come last
_COLOURS = {"worse": "#b3261e", "better": "#00735a", "same": "#5b6770"}
_OTHER = "#a35b00"
_USUAL, _BEYOND = 0.9, 1.5  # the scale goes this many times as far from 1 as this share of all rows
_LEAST, _FARTHEST = math.log(1.01), math.log(32.0)  # logarithms that the scale reaches at least, and at most
_TICKS = (1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 32.0)
_MOST_OF_A_LABEL, _MOST_OF_A_VERDICT = 120, 40  # characters

Shown = Callable[[object, int], str]  # text of at most so many characters, as a format can show it


class Row(NamedTuple):
    """A ratio. `low`, `middle`, `high`: places along the scale, from 0 to 1; None where there is none.

    `text`: its figures and its verdict; `cut`: whether the interval continues beyond either end of the scale.
    """

    label: str
    text: str
    colour: str
    low: float | None
    middle: float | None
    high: float | None
    cut: tuple[bool, bool]


class Forest(NamedTuple):
    """A plot. `band`, `ticks`: places along the scale, from 0 to 1; `caption`: what it shows, in words."""

    rows: tuple[Row, ...]
    band: tuple[float, float]
    ticks: tuple[tuple[float, str], ...]
    caption: str


def forest(part: Ratios, most: int, shown: Shown) -> Forest | None:
    """Return the plot of at most so many ratios, those that ask for something first; None where there is none."""
    if not part.rows:
        return None
    verdicts = [shown(row.verdict.replace("_", " "), _MOST_OF_A_VERDICT) for row in part.rows]
    order = dict.fromkeys((*_ORDER, *verdicts))
    place = {verdict: number for number, verdict in enumerate(order)}
    ranked = sorted(zip(part.rows, verdicts, strict=True), key=lambda pair: place[pair[1]])[:most]
    margin = math.log1p(part.margin) if 0.0 < part.margin < math.inf else 0.0
    reach = _reach(part.rows, margin)
    tick = max((tick for tick in _TICKS if math.log(tick) <= reach), default=1.0)
    return Forest(
        tuple(_row(row, verdict, reach, shown) for row, verdict in ranked),
        (_place(-margin, reach), _place(margin, reach)),
        tuple((_place(math.log(x), reach), f"{x:.3g}") for x in (1.0 / tick, 1.0, tick)),
        "; ".join(_caption(part, margin, Counter(verdicts), order, len(ranked))),
    )


def joined(parts: Sequence[Part]) -> list[Part]:
    """Return the parts; ratios beside each other that have the same margin and level are one plot."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, Ratios) and isinstance(last, Ratios) and _alike(part, last):
            found[-1] = Ratios((*last.rows, *part.rows), last.margin, last.level)
        else:
            found.append(part)
    return found


def _alike(one: Ratios, other: Ratios) -> bool:
    return (one.margin, one.level) == (other.margin, other.level)


def _row(row: Ratio, verdict: str, reach: float, shown: Shown) -> Row:
    low, middle, high = (_log(value) for value in (row.low, row.ratio, row.high))
    figures = said(units.ratio(row.ratio, row.low, row.high)) if row.ratio is not None else units.MISSING
    return Row(
        shown(f"{row.case}: {row.figure}" if row.figure else row.case, _MOST_OF_A_LABEL),
        f"{figures}, {said(verdict)}", _COLOURS.get(verdict, _OTHER),
        _place(low, reach) if low is not None else None,
        _place(middle, reach) if middle is not None and math.isfinite(middle) else None,
        _place(high, reach) if high is not None else None,
        (low is not None and low < -reach, high is not None and high > reach),
    )  # fmt: skip


def _log(ratio: float | None) -> float | None:
    """Return the logarithm, that of 0 and of infinity too; None of what is no ratio."""
    if ratio is None or not ratio >= 0.0:
        return None
    return math.log(ratio) if ratio > 0.0 else -math.inf


def _reach(rows: Sequence[Ratio], margin: float) -> float:
    """Return how far the scale goes from 1 to both sides, as a logarithm.

    That is past the margin, every ratio and every interval; but where a few are far wider than the rest, not to their
    ends.
    """
    logs = [[log for value in (row.low, row.ratio, row.high) for log in _finite(value)] for row in rows]
    ends = sorted(max(map(abs, own)) for own in logs if own) or [0.0]
    usual = max(_LEAST, 2.0 * margin, ends[int(_USUAL * (len(ends) - 1))])
    return min(1.1 * min(max(usual, ends[-1]), _BEYOND * usual), _FARTHEST)


def _finite(ratio: float | None) -> Iterator[float]:
    log = _log(ratio)
    if log is not None and math.isfinite(log):
        yield log


def _place(log: float, reach: float) -> float:
    return min(max(0.5 + 0.5 * log / reach, 0.0), 1.0)


def _caption(part: Ratios, margin: float, counts: Counter[str], order: Iterable[str], drawn: int) -> Iterator[str]:
    if len(part.rows) > 1:
        yield ", ".join(f"{counts[verdict]} {said(verdict)}" for verdict in order if counts[verdict])
    level = f"{100.0 * part.level:.4g} %"
    yield said(f"candidate ÷ baseline with the {level} confidence interval, on a logarithmic scale")
    if margin > 0.0:
        yield said(f"shaded: the equivalence margin of {100.0 * part.margin:.3g} %")
    if left_out := len(part.rows) - drawn:
        yield said(f"{left_out:,} more row{'s' * (left_out != 1)}: see the table")
