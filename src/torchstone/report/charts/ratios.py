"""A forest plot: ratios with their intervals on a logarithmic axis, by verdict, and what is too small to matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core import units
from torchstone.core.charts.palette import short_names
from torchstone.core.charts.picture import (
    Colours,
    Coordinate,
    Divider,
    Dots,
    Kind,
    Mark,
    Panel,
    Picture,
    Reach,
    Stretch,
)
from torchstone.report.document import Chart, Ratio, Ratios

_MOST_ROWS = 40  # of a verdict
_BEYOND = 1.5  # times further than the ratios themselves an interval is shown
_NAME = 46
_ROW, _FEWEST_ROWS = 22, 2
_ORDER = ("worse", "better", "unclear", "same")
# Beside the words: no verdict is told by its colour alone.
_SHADES = {"worse": "#d55e00", "better": "#0072b2", "unclear": "#999999", "same": "#009e73"}


def ratios_chart(told: Ratios, name: str = "ratios") -> Chart | None:
    """Return the forest plot of Ratios that have a value; None where none has."""
    rows = [row for row in told.rows if _is_drawn(row)]
    if not rows:
        return None
    says = "Ratios of candidate to baseline with their confidence intervals, by verdict; shaded: within the margin"
    return Chart(name, says, forest(told))


def forest(told: Ratios, title: str = "Candidate ÷ baseline") -> Picture:
    """Return a panel a verdict over one axis of ratios; what has no ratio is counted in the subtitle.

    What all cases begin with, and is not needed to tell them apart, is in the title.
    """
    shared, rows = _apart([row for row in told.rows if _is_drawn(row)])
    ends = _ends(rows, told.margin)
    verdicts = dict.fromkeys((*_ORDER, *(row.verdict for row in rows)))
    panels = [
        _panel(verdict, own, told.margin, ends)
        for verdict in verdicts if (own := [row for row in rows if row.verdict == verdict])
    ]  # fmt: skip
    words = [f"bars: {100 * told.level:.4g} % confidence intervals"]
    if told.margin > 0.0:
        words.append(f"shaded: differences under {units.percent(told.margin, 0 if told.margin >= 0.01 else 1)}")
    if lost := len(told.rows) - len(rows):
        words.append(f"{lost} without a ratio")
    return Picture(f"{title}: {shared}" if shared else title, tuple(panels), "; ".join(words), columns=1)


def _apart(rows: Sequence[Ratio]) -> tuple[str, list[Ratio]]:
    """Return the words that all cases begin with, and the rows without them: "8" alone would not tell of what."""
    words = [row.case.split() for row in rows]
    at_once = enumerate(zip(*words, strict=False))
    shared = next((n for n, each in at_once if len(set(each)) > 1), min(map(len, words), default=0))
    if len({row.case for row in rows}) > 1:
        shared = max(0, shared - 1)
        left = [" ".join(each[shared:]) for each in words]
    else:
        left = [""] * len(rows)
    kept = [msgspec.structs.replace(row, case=case) for row, case in zip(rows, left, strict=True)]
    return " ".join(words[0][:shared]).rstrip(",") if words else "", kept


def _is_drawn(row: Ratio) -> bool:
    return row.ratio is not None and row.ratio > 0.0 and math.isfinite(row.ratio)


def _ends(rows: Sequence[Ratio], margin: float) -> tuple[float, float]:
    """Return the ends of the axis: all ratios, their intervals as far as they are of their size, and the margin."""
    ratios = [row.ratio for row in rows if row.ratio is not None] or [1.0]
    least, most = min(1.0, *ratios), max(1.0, *ratios)
    reach = [end for row in rows for end in (row.low, row.high) if end is not None and math.isfinite(end)]
    low = min([least, *(end for end in reach if end >= least / _BEYOND), (1.0 + margin) ** -2])
    high = max([most, *(end for end in reach if end <= most * _BEYOND), (1.0 + margin) ** 2])
    return low / 1.02, high * 1.02


def _panel(verdict: str, own: Sequence[Ratio], margin: float, ends: tuple[float, float]) -> Panel:
    shown = sorted(own, key=lambda row: row.ratio or 0.0)
    kept = shown if len(shown) <= _MOST_ROWS else [*shown[: _MOST_ROWS // 2], *shown[-_MOST_ROWS // 2 :]]
    labels = _labels(kept)
    values: list[Mapping[str, Any]] = []
    for row, label in zip(kept, labels, strict=True):
        low, high = (end if end is not None and 0.0 < end < math.inf else None for end in (row.low, row.high))
        values.append({"ratio": row.ratio, "low": low, "high": high, "row": label, "verdict": verdict})
    y = Coordinate("row", "", Kind.NAMES, tuple(labels))
    x = Coordinate("ratio", "ratio", logarithmic=True, ends=ends)
    band: tuple[Mark, ...] = ()
    if margin > 0.0:
        band = (Stretch("from", "to", ({"from": 1.0 / (1.0 + margin), "to": 1.0 + margin},)),)
    one = Divider("word", ({"ratio": 1.0, "word": ""},))
    more = f", {len(shown) - len(kept)} in the middle left out" if len(kept) < len(shown) else ""
    shades = Colours("verdict", (verdict,), (_SHADES.get(verdict, "#333333"),))
    height = _ROW * max(_FEWEST_ROWS, len(kept))
    title = f"{verdict.replace('_', ' ')}: {len(own)}{more}"
    return Panel(title, x, (*band, one, Reach(y), Dots(y)), tuple(values), shades, width=420, height=height)


def _labels(rows: Sequence[Ratio]) -> list[str]:
    """Return case and figure of each row in few characters, each another."""
    full = [": ".join(filter(None, (row.case, row.figure))) or "ratio" for row in rows]
    numbered = [f"{text} ({place})" if full.index(text) != place else text for place, text in enumerate(full)]
    names = short_names(numbered, _NAME)
    return [names[text] for text in numbered]
