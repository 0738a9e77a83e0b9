"""The steps of single trials: in the order of time from warm-up on, and as a distribution with its intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.charts.palette import colours
from torchstone.core.charts.picture import Band, Coordinate, Divider, Line, Panel, Picture
from torchstone.core.charts.thinning import MOST_POINTS, thinned
from torchstone.core.figures import closed_loop_only, raw
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.stats.quantile import Quantile, of_one_trial, over_several
from torchstone.report.charts.chosen_cases import chosen_cases, of_trials, titles_of, trials_of
from torchstone.report.document import Chart

_MOST = 800  # points of a panel: a line of more is no clearer, and a file of many panels has to be sent
_FEWEST = 5  # steps that are an order, or a distribution
_UNEVEN = 20.0  # times the median: then a logarithmic axis shows both
_WORD = {True: "latency of a batch", False: "time of a step"}


def sample_charts(summary: RunSummary, run: Run) -> list[Chart]:
    """Return the steps in the order of time, and their distribution; nothing where no raw values were kept."""
    cases = chosen_cases(summary)
    titles = titles_of(cases, summary)
    order = [p for case in cases if (p := _in_order(titles[case.case_id], trials_of(case, run))) is not None]
    spread = [p for case in cases if (p := _distribution(titles[case.case_id], trials_of(case, run))) is not None]
    found = []
    if order:
        says = "Each step in the order of time, from the first of the warm-up on; 0 is where the warm-up ends"
        found.append(Chart("batch_times", says, Picture("Steps in the order of time", tuple(order), columns=2)))
    if spread:
        says = "Which share of batches takes at most so long, with 95 % confidence intervals"
        picture = Picture("Distribution of times", tuple(spread), columns=2)
        found.append(Chart("latency_distribution", says, picture))
    return found


# ── in the order of time ────────────────────────────────────────────────────────────────────────────────────


def _in_order(title: str, trials: Sequence[Trial]) -> Panel | None:
    """Return the steps of each trial; those of the warm-up have numbers below 0."""
    steps = {f"trial {number}": _steps(trial) for number, trial in enumerate(trials, start=1)}
    known = {name: one for name, one in steps.items() if len(one[1]) >= _FEWEST}
    if not known:
        return None
    every = [value for before, after in known.values() for value in (*before, *after)]
    divisor, unit = units.scale_of(sorted(every)[len(every) // 2], "s")
    uneven = min(every) > 0.0 and max(every) > _UNEVEN * sorted(every)[len(every) // 2]
    values = tuple(
        {"step": place, "y": value / divisor, "trial": name}
        for name, (before, after) in known.items()
        for place, value in thinned(_numbered(before, after), max(4, _MOST // len(known)))
    )
    y = Coordinate("y", unit, logarithmic=uneven, from_zero=False)
    warm = any(before for before, _ in known.values())
    ends = (Divider("word", ({"step": 0, "word": "warm-up ends"},)),) if warm else ()
    fewer = "; of each stretch the extremes" if sum(map(len, map(_joined, known.values()))) > len(values) else ""
    x = Coordinate("step", "step, from the end of the warm-up" if warm else "step", from_zero=False, whole=True)
    shades = colours("trial", known, tuple(known))
    return Panel(
        title, x, (Line(y, faint=len(values) > 4 * len(known)), *ends), values, shades,
        f"single steps of {of_trials(trials)}{fewer}", width=380,
    )  # fmt: skip


def _joined(one: tuple[Sequence[float], Sequence[float]]) -> list[float]:
    return [*one[0], *one[1]]


def _numbered(before: Sequence[float], after: Sequence[float]) -> list[tuple[float, float]]:
    return [(place - len(before), value) for place, value in enumerate((*before, *after))]


def _steps(trial: Trial) -> tuple[Sequence[float], Sequence[float]]:
    """Return the times of the steps of the warm-up, and of the windows behind it: finite ones."""
    latency = closed_loop_only(trial)
    after = raw(trial, "latency_s", True) if latency else raw(trial, "step_time_s", False)
    before = () if latency else trial.values("step_time_s", Stage.WARMUP)
    return [v for v in before if math.isfinite(v)], [v for v in after if math.isfinite(v)]


# ── as a distribution ───────────────────────────────────────────────────────────────────────────────────────


def _distribution(title: str, trials: Sequence[Trial]) -> Panel | None:
    """Return the share of batches over the time they take at most: the mean over trials, or of one trial alone."""
    latency = any(raw(trial, "latency_s", True) for trial in trials)
    metric = "latency_s" if latency else "step_time_s"
    taken = [[v for v in raw(trial, metric, latency) if math.isfinite(v)] for trial in trials]
    taken = [values for values in taken if len(values) >= _FEWEST]
    if not taken:
        return None
    several = len(taken) > 1
    quantiles = over_several(taken) if several else of_one_trial(taken[0])
    divisor, unit = units.scale_of(quantiles[len(quantiles) // 2].value, "s")
    values = tuple(_points(quantiles, divisor, is_open=not several))
    y = Coordinate("share", f"share of {'batches' if latency else 'steps'}", ends=(0.0, 1.0))
    if several and all(point["low"] is None for point in values):
        words = f"mean of {len(taken)} trials, which differ too much for an interval (wider than ±50 %)"
    elif several:
        words = f"mean of {len(taken)} trials; band: 95 % confidence interval of each quantile over them"
    else:
        words = "one trial; band: 95 % for the whole curve (Dvoretzky-Kiefer-Wolfowitz), open at its ends"
    x = Coordinate("x", f"{_WORD[latency]}, {unit}", from_zero=False, ends=None if several else _ends(values))
    return Panel(title, x, (Band(y), Line(y)), values, None, words, width=380)


def _points(quantiles: Sequence[Quantile], divisor: float, *, is_open: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the points. `is_open`: an end of the band that is not known reaches to the end of the axis."""
    least, most = (quantiles[0].value, quantiles[-1].value) if is_open else (None, None)
    for one in quantiles[:MOST_POINTS]:
        ends = (least if one.low is None else one.low, most if one.high is None else one.high)
        wide = not is_open and units.is_wide(one.value, *ends)
        low, high = (None if end is None or wide else end / divisor for end in ends)
        yield {"share": one.share, "x": one.value / divisor, "low": low, "high": high}


def _ends(values: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    least, most = values[0]["x"], values[-1]["x"]
    return (least, most) if least < most else None
