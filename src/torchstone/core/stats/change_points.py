"""Change points of a series: where its level changed, for histories of a figure with one value per run.

Circular binary segmentation (core/stats/segmentation.py), with three things of real histories allowed for:

- values that lie apart by themselves are left out (the identifier of Hampel, JASA 69(346), 1974, with the medians of
  the five on either side: what agrees with one side is no outlier, so a step stays one);
- neighbours resemble each other: n·(1-r)/(1+r) independent values (Santer et al., JGR 105(D6), 2000), where r is larger
  than its own noise;
- a slow drift is no step: the more values there are, the more surely must the step stand out from a straight line.

How often it calls a change where there is none, and finds one that is there: tests/statistics/test_change_points.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from torchstone.core.stats.comparing import Difference, Part
from torchstone.core.stats.logs import from_log
from torchstone.core.stats.segmentation import FEWEST, Series, edges, resemblance
from torchstone.core.stats.student import two_sided

_AROUND, _AROUND_AT_ENDS = 5, 3  # neighbours on a side: at the end, three that are new are a level
_OUTLIER = 3.5  # standard deviations beyond the neighbours on both sides
_DIFFERENCE = 0.9539  # median distance of two normal values, in standard deviations of one


class Level(NamedTuple):
    """A stretch [begin, end) of a series: the mean of its logs, the standard error of that, how many stand behind."""

    begin: int
    end: int
    log: float
    error: float
    values: int


class Levels(NamedTuple):
    """The levels in order. `outliers`: places left out; `deviation` of one log around its level, with `df`."""

    levels: tuple[Level, ...]
    outliers: tuple[int, ...]
    deviation: float
    df: float

    def difference(self, before: Level, after: Level) -> Difference:
        """Return after less before: one spread is that of all levels. The place of the change is taken as known."""
        part = Part(after.log - before.log, before.error**2 + after.error**2, 1, self.df)
        return Difference(part.log, part._replace(log=0.0, variance=0.0), part)

    def interval(self, level: Level, confidence: float = 0.95) -> tuple[float, float, float]:
        """Return the level in the unit of the values, with the ends of its t-interval."""
        half = two_sided(confidence, self.df) * level.error
        return from_log(level.log), from_log(level.log - half), from_log(level.log + half)


def levels(values: Sequence[float], errors: Sequence[float | None] = ()) -> Levels:
    """Return the levels of a series of positive values, in order of time.

    errors: the standard error of each value's logarithm, as its own trials tell it; None where they do not. A value
    that is known badly counts less, but none counts much more than others: what lies between runs is in no run's error.
    Raises ValueError where there is no value, or one is not positive.
    """
    if not values or not all(0.0 < value < math.inf for value in values):
        raise ValueError("a history needs values, all of them positive")
    logs = [math.log(value) for value in values]
    deviation = _deviation(logs)
    weights = _weights(logs, errors, deviation)
    apart = set(_outliers(logs, [1.0 / math.sqrt(w) for w in weights]))
    kept = [place for place in range(len(logs)) if place not in apart]
    series = Series([logs[place] for place in kept], [weights[place] for place in kept], kept)
    return _described(series, edges(series), len(logs), tuple(sorted(apart)))


def _deviation(logs: Sequence[float]) -> float:
    """Return a standard deviation of one value that neither a step nor an outlier moves much: by neighbours."""
    apart = [abs(b - a) for a, b in itertools.pairwise(logs)]
    return max(median(apart) / _DIFFERENCE if apart else 0.0, 1e-9)


def _weights(logs: Sequence[float], errors: Sequence[float | None], deviation: float) -> list[float]:
    known = [error for error in errors if error is not None]
    if not known:
        return [1.0 / deviation**2] * len(logs)
    usual = median(known) ** 2
    between = max(deviation**2 - usual, 0.5 * deviation**2)  # what is left over is between runs
    # Three trials tell their own spread badly: it is drawn towards what is usual (Smyth, SAGMB 3(1), 2004).
    return [1.0 / (between + (usual if error is None else (2.0 * usual + error**2) / 3.0)) for error in errors]


def _outliers(logs: Sequence[float], deviations: Sequence[float]) -> Iterator[int]:
    n = len(logs)
    for place, (log, deviation) in enumerate(zip(logs, deviations, strict=True)):
        left = _AROUND if n - 1 - place >= FEWEST else _AROUND_AT_ENDS
        right = _AROUND if place >= FEWEST else _AROUND_AT_ENDS
        sides = (logs[max(0, place - left) : place], logs[place + 1 : place + 1 + right])
        near = [median(side) for side in sides if side]
        reach = _OUTLIER * deviation
        if near and not min(near) - reach <= log <= max(near) + reach:
            yield place


def _described(series: Series, borders: Sequence[int], n: int, outliers: tuple[int, ...]) -> Levels:
    parts = list(itertools.pairwise(borders))
    df = max(1, len(series.logs) - len(parts))
    spread = math.fsum(series.squares(a, b) for a, b in parts) / df
    residuals = [x - series.mean(a, b) for a, b in parts for x in series.logs[a:b]]
    wider = resemblance(residuals, len(parts))
    begins = [0, *(series.places[a] for a, _ in parts[1:])]
    errors = [wider * math.sqrt(spread / (series.w[b] - series.w[a])) for a, b in parts]
    found = tuple(
        Level(begin, end, series.middle + series.mean(a, b), error, b - a)
        for (a, b), begin, end, error in zip(parts, begins, [*begins[1:], n], errors, strict=True)
    )
    deviation = math.sqrt(spread / fmean(series.weights))
    return Levels(found, outliers, deviation, df / wider**2 if wider > 1.0 else float(df))
