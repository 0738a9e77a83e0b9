"""A forest plot: ratios with their intervals on a logarithmic axis, by verdict, and what is too small to matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, short_names
from torchstone.report.document import Chart

_ROWS, _MOST_ROWS = 16, 96  # of a panel, which fills a slide; of a plot
_BEYOND = 1.5  # times further than the ratios themselves an interval is shown
_NAME = 46  # characters
_WIDTH, _ROW, _LEAST_HEIGHT = 300, 20, 40
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_TICKS = 7


class Ratio(msgspec.Struct, frozen=True):
    """Candidate ÷ baseline of one figure of one case, with its confidence interval; None where there is none.

    `verdict`: better, worse, same or unclear, as the comparison gave it.
    """

    case: str
    figure: str
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str


def ratios_chart(rows: Sequence[Ratio], margin: float, level: float) -> Iterator[Chart]:
    """Yield the forest plot of ratios; nothing where none has a value. A Table beside it has the same figures."""
    if any(map(_is_drawn, rows)):
        yield Chart("ratios", "Ratios of candidate to baseline, by verdict", forest(rows, margin, level))


def forest(rows: Sequence[Ratio], margin: float, level: float, title: str = "Candidate ÷ baseline") -> Picture:
    """Return a row a ratio, by verdict and size, in panels over one axis; what has no ratio is counted in the subtitle.

    `margin`: differences of less than this share are equal. What all cases begin with, and is not needed to tell them
    apart, is in the title; a figure that all have is the title of the axis.
    """
    shared, drawn = _apart([row for row in rows if _is_drawn(row)])
    what = drawn[0].figure if drawn and len({row.figure for row in drawn}) == 1 else ""
    if what and all(row.case for row in drawn):
        drawn = [msgspec.structs.replace(row, figure="") for row in drawn]
    order = list(dict.fromkeys((*vl.VERDICTS, *(row.verdict for row in drawn))))
    ranked = sorted(drawn, key=lambda row: (order.index(row.verdict), row.ratio))
    ends = _ends(drawn, margin)
    labelled = list(zip(ranked, _labels(ranked), strict=True))[:_MOST_ROWS]
    panels = [_panel(labelled[n : n + _ROWS], what or "ratio", margin, ends) for n in range(0, len(labelled), _ROWS)]
    words = [f"bars: {100 * level:.4g} % confidence intervals"]
    if margin > 0.0:
        words.append(f"shaded: differences under {units.percent(margin, 0 if margin >= 0.01 else 1)}")
    if lost := len(rows) - len(drawn):
        words.append(f"{lost} without a ratio")
    if lost := len(ranked) - len(labelled):
        words.append(f"{lost} more are in the tables")
    return Picture(f"{title}: {shared}" if shared else title, tuple(panels), "; ".join(words), columns=1)


def _word(verdict: str) -> str:
    return verdict.replace("_", " ")


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


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round ratios along the axis, 1 among them."""
    for step in _STEPS:
        below, above = int((1.0 - low) / step), int((high - 1.0) / step)
        if below + above < _MOST_TICKS and below * step < 1.0:
            return tuple(round(1.0 + n * step, 6) for n in range(-below, above + 1))
    for base in (2.0, 10.0, 100.0):
        below, above = int(-math.log(low, base)), int(math.log(high, base))
        if below + above < _MOST_TICKS:
            return tuple(base**n for n in range(-below, above + 1))
    return (1.0,)


def _panel(own: Sequence[tuple[Ratio, str]], what: str, margin: float, ends: tuple[float, float]) -> Panel:
    values: list[Mapping[str, Any]] = []
    for row, label in own:
        low, high = (end if end is not None and 0.0 < end < math.inf else None for end in (row.low, row.high))
        figures = "" if row.ratio is None else units.ratio(row.ratio, low, high)
        values.append(
            {
                "row": label,
                "ratio": row.ratio,
                "low": low,
                "high": high,
                "verdict": _word(row.verdict),
                "figures": figures,
            }
        )
    x = {**vl.number_axis("ratio", what, log=True, ends=ends), "axis": {"values": list(_ticks(*ends)), "format": "~g"}}
    y = vl.row_axis("row", "", [label for _, label in own])
    equal = [{"from": 1.0 / (1.0 + margin), "to": 1.0 + margin}]
    counts = Counter(row.verdict for row, _ in own)
    looks = {_word(verdict): vl.VERDICTS.get(verdict, vl.OTHER_VERDICT) for verdict in counts}
    shades = {word: shade for word, (shade, _) in looks.items()}
    shapes = vl.shaded("verdict", shades, [shape for _, shape in looks.values()])
    band = [vl.stretches(equal)] if margin > 0.0 else []
    bars = (vl.interval_bar(along="x", clip=True), *vl.arrows(*ends), vl.dots(shapes))
    marks = (*band, *vl.dividers([{"ratio": 1.0}]), *bars, vl.aside("figures"))
    title = ", ".join(f"{_word(verdict)}: {count}" for verdict, count in counts.items())
    height = max(_LEAST_HEIGHT, _ROW * len(own))
    return vl.panel(title, x, y, marks, values, vl.shaded("verdict", shades), width=_WIDTH, height=height)


def _labels(rows: Sequence[Ratio]) -> list[str]:
    """Return case and figure of each row in few characters, each another."""
    full = [": ".join(filter(None, (row.case, row.figure))) or "ratio" for row in rows]
    numbered = [f"{text} ({place})" if full.index(text) != place else text for place, text in enumerate(full)]
    names = short_names(numbered, _NAME)
    return [names[text] for text in numbered]
