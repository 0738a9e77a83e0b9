"""Change points of a series: where its level changed, for histories of a figure with one value per run.

Circular binary segmentation, with three things of real histories allowed for:

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

from torchstone.core.stats.comparing import Difference, VariancePart
from torchstone.core.stats.student import from_log, t_quantile, two_sided

# Where a series changes its level: the search behind stats.change_points, on logs with weights, outliers left out.
#
# Circular binary segmentation (Olshen, Venkatraman, Lucito & Wigler, Biostatistics 5(4), 2004): the one change, or the
# two ends of the stretch, that part a series best, then the same within each part; plain binary segmentation misses a
# stretch that comes back to where it was. Thresholds grow with the length as in Fryzlewicz, Annals of Statistics 42(6),
# 2014, and with Bonferroni's bound over the places that were looked at.

FEWEST = 3  # values of a level; a stretch that comes back needs more, or three outliers in a row would be one
_FEWEST_OF_STRETCH = 6
_ALARM, _ALARM_OF_STRETCH = 0.03, 0.01
_GROWTH, _GROWTH_OF_STRETCH = 1.58, 1.85
_KEEP = 0.995  # one-sided: what stays a change between the levels that were found
_MOST_CORRELATION = 0.8
_LINE_GROWTH, _LINE_START, _LINE_MOST = 0.8, 1.8, 3.4
_PLACES = 120  # ends of stretches that are tried: all of a short series, every so many-th of a long one


class WeightedValues:
    """Values with their weights, and the sums that make any stretch's mean and spread O(1)."""

    def __init__(self, logs: Sequence[float], weights: Sequence[float], places: Sequence[int]) -> None:
        middle = fmean(logs)
        self.middle, self.places, self.weights = middle, places, weights
        self.logs = [log - middle for log in logs]
        self.w = [0.0, *itertools.accumulate(weights)]
        self.s = [0.0, *itertools.accumulate(w * x for w, x in zip(weights, self.logs, strict=True))]
        self.q = [0.0, *itertools.accumulate(w * x * x for w, x in zip(weights, self.logs, strict=True))]

    def mean(self, begin: int, end: int) -> float:
        """Return the weighted mean of a stretch."""
        return (self.s[end] - self.s[begin]) / (self.w[end] - self.w[begin])

    def squares(self, begin: int, end: int) -> float:
        """Return the weighted squares around the stretch's own mean."""
        total = self.s[end] - self.s[begin]
        return max(0.0, self.q[end] - self.q[begin] - total * total / (self.w[end] - self.w[begin]))

    def parted(self, begin: int, end: int, left: int, right: int) -> float:
        """Return by how much [left, right) against the rest of [begin, end) lowers the squares."""
        inside = self.w[right] - self.w[left]
        whole = self.w[end] - self.w[begin]
        over = self.s[right] - self.s[left] - (self.s[end] - self.s[begin]) * inside / whole
        return over * over * whole / (inside * (whole - inside))


def edges(series: WeightedValues) -> list[int]:
    """Return where levels begin, and the length of the series at the end: [0, …, n]."""
    return _settled(series, _pruned(series, [0, *sorted(_changes(series)), len(series.logs)]))


def _changes(series: WeightedValues) -> Iterator[int]:
    """Yield the places of changes, each part of the series looked at again until none is found in it."""
    waiting = [(0, len(series.logs))]
    while waiting:
        begin, end = waiting.pop()
        cuts = _best_cuts(series, begin, end)
        yield from cuts
        if cuts:
            waiting += itertools.pairwise((begin, *cuts, end))


def _best_cuts(series: WeightedValues, begin: int, end: int) -> tuple[int, ...]:
    """Return the changes, or the two ends of a stretch, that part [begin, end) beyond their thresholds; else ()."""
    if end - begin < 2 * FEWEST:
        return ()
    at = _best_cut(series, begin, end)
    found = [_exceeds_a_line(series, begin, end, at)]
    if (stretch := _best_stretch(series, begin, end)) is not None:
        found.append((_excess(series, begin, end, stretch), stretch))
    over, cuts = max(found)
    return cuts if over > 1.0 else ()


def _best_cut(series: WeightedValues, begin: int, end: int) -> int:
    return max(range(begin + FEWEST, end - FEWEST + 1), key=lambda k: series.parted(begin, end, begin, k))


def _best_stretch(series: WeightedValues, begin: int, end: int) -> tuple[int, int] | None:
    first, last = begin + FEWEST, end - FEWEST
    step = max(1, (end - begin) // _PLACES)

    def best(lefts: Sequence[int], rights: Sequence[int]) -> tuple[int, int] | None:
        pairs = ((i, j) for i in lefts for j in rights if j - i >= _FEWEST_OF_STRETCH)
        return max(pairs, key=lambda pair: series.parted(begin, end, *pair), default=None)

    found = best(range(first, last + 1, step), range(first, last + 1, step))
    if found is None or step == 1:
        return found
    near = [range(max(first, place - step), min(last, place + step) + 1) for place in found]
    return best(*near)


def _excess(series: WeightedValues, begin: int, end: int, cuts: tuple[int, ...]) -> float:
    """Return Student's t of the two levels over its threshold: above 1, they are two."""
    n, single = end - begin, len(cuts) == 1
    left, right = (begin, cuts[0]) if single else cuts
    gain = series.parted(begin, end, left, right)
    rest = max(series.squares(begin, end) - gain, 1e-12 * gain)
    if rest <= 0.0:
        return 0.0  # all values are equal
    inside = [left <= place < right for place in range(begin, end)]
    t = math.sqrt(gain * (n - 2) / rest) / resemblance(_around_means(series, begin, inside), 2)
    tried = min(n - 2 * FEWEST + 1.0, 2.2 * math.sqrt(n)) if single else 3.5 * n  # in effect: neighbours resemble
    alarm, growth = (_ALARM, _GROWTH) if single else (_ALARM_OF_STRETCH, _GROWTH_OF_STRETCH)
    bound = t_quantile(1.0 - alarm / (2.0 * tried), n - 2)
    return t / max(bound, growth * math.sqrt(2.0 * math.log(n)))


def _around_means(series: WeightedValues, begin: int, inside: Sequence[bool]) -> list[float]:
    """Return the values around the weighted mean of their own kind, inside or outside of a stretch."""
    both = list(zip(inside, series.logs[begin : begin + len(inside)], series.weights[begin:], strict=False))
    mean = {}
    for kind in (True, False):
        total = math.fsum(w for this, _, w in both if this is kind)
        mean[kind] = math.fsum(w * x for this, x, w in both if this is kind) / total
    return [x - mean[kind] for kind, x, _ in both]


def resemblance(residuals: Sequence[float], parameters: int) -> float:
    """Return by what the standard error of a mean grows since neighbours resemble each other; 1.0: they do not."""
    n, squares = len(residuals), math.fsum(r * r for r in residuals)
    if squares <= 0.0 or n <= parameters + 2:
        return 1.0
    neighbours = math.fsum(a * b for a, b in itertools.pairwise(residuals)) / squares
    r = (n * neighbours + parameters) / (n - 2.0 - parameters)  # Kendall, Biometrika 41, 1954: what fitting took
    r = min(_MOST_CORRELATION, max(0.0, r - 0.5 / math.sqrt(n)))
    return math.sqrt((1.0 + r) / (1.0 - r))


def _exceeds_a_line(series: WeightedValues, begin: int, end: int, at: int) -> tuple[float, tuple[int, ...]]:
    """Return the change and how far it exceeds its threshold, or a staircase; 0 where it could be a straight line.

    The more values there are, the surer must it stand out: a drift over few of them is small. The steps of a staircase
    hide one another: each must be one within its own part.
    """
    enough = min(_LINE_MOST, _LINE_GROWTH * math.sqrt(end - begin) - _LINE_START)
    rising = series.mean(at, end) > series.mean(begin, at)
    t = _t_against_a_line(series, begin, end, (at,))
    over = _excess(series, begin, end, (at,)) if (t if rising else -t) >= enough else 0.0
    parts = [part for part in ((begin, at), (at, end)) if part[1] - part[0] >= 2 * FEWEST]
    cuts = [_best_cut(series, *part) for part in parts]
    others = {cut: _excess(series, *part, (cut,)) for cut, part in zip(cuts, parts, strict=True)}
    stairs = tuple(sorted((at, *(cut for cut, excess in others.items() if excess > 1.0))))
    if over > 1.0 or len(stairs) == 1 or _t_against_a_line(series, begin, end, stairs) < _LINE_MOST:
        return over, (at,)
    return max(others.values()), stairs


def _t_against_a_line(series: WeightedValues, begin: int, end: int, cuts: Sequence[int]) -> float:
    """Return the root of F of the steps in a model of a line and steps: of one step, Student's t with its sign."""
    n, weights = end - begin, series.weights[begin:end]
    line = [[1.0] * n, [float(place) for place in series.places[begin:end]]]
    steps = [[float(place >= cut) for place in range(begin, end)] for cut in cuts]
    basis: list[list[float]] = []
    for column in (*line, *steps, series.logs[begin:end]):
        left = list(column)
        for each in basis:
            part = math.fsum(w * a * b for w, a, b in zip(weights, each, column, strict=True))
            left = [value - part * other for value, other in zip(left, each, strict=True)]
        length = math.sqrt(math.fsum(w * value * value for w, value in zip(weights, left, strict=True)))
        basis.append([value / length for value in left] if length > 0.0 else left)
    rest = length * length  # of the values, without line and steps
    heights = [
        math.fsum(w * a * b for w, a, b in zip(weights, each, series.logs[begin:end], strict=True))
        for each in basis[len(line) : -1]
    ]
    gain, df = math.fsum(height * height for height in heights), n - len(line) - len(steps)
    f = gain / len(steps) * df / rest if rest > 1e-12 * gain else math.inf
    return math.copysign(math.sqrt(f), heights[0] if len(heights) == 1 else 1.0) if df > 0 else math.inf


def _pruned(series: WeightedValues, edges: list[int]) -> list[int]:
    """Return the edges without those between levels that do not differ, once the others are known."""
    while len(edges) > 2:
        df = max(1, len(series.logs) - len(edges) + 1)
        spread = math.fsum(series.squares(a, b) for a, b in itertools.pairwise(edges)) / df
        tests = []
        for a, b, c in zip(edges, edges[1:], edges[2:], strict=False):
            gain = series.parted(a, c, a, b)
            tests.append((math.sqrt(gain / spread) if spread > 0.0 else math.inf, b))
        weakest, edge = min(tests)
        if weakest >= t_quantile(_KEEP, df):
            break
        edges = [one for one in edges if one != edge]
    return edges


def _settled(series: WeightedValues, edges: list[int]) -> list[int]:
    """Return the edges, each moved to where it parts the two levels beside it best."""
    for place in range(1, len(edges) - 1):
        edges[place] = _best_cut(series, edges[place - 1], edges[place + 1])
    return edges


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
        part = VariancePart(after.log - before.log, before.error**2 + after.error**2, 1, self.df)
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
    series = WeightedValues([logs[place] for place in kept], [weights[place] for place in kept], kept)
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


def _described(series: WeightedValues, borders: Sequence[int], n: int, outliers: tuple[int, ...]) -> Levels:
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
