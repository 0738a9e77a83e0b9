"""Reads throughput over batch sizes: where it is low and why, where it stops to rise, whether it falls again.

A difference is only named where it is larger than the noise: the largest of many noisy values looks better than it is,
so each comparison is made at the level 0.05 ÷ number of pairs (Bonferroni): round by round within a run, or with the
spread of all points pooled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.setting import Setting
from torchstone.core.schema.advice import Advice, Remedy, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.comparing import LogMean, bonferroni, pooled, ratio
from torchstone.core.stats.student import t_quantile

_LEVEL = 0.05
_ASSUMED_DEVIATION = 0.10  # of the log of a trial, where no point has two: trials of the same code differ so
_FEWEST = 3
_SATURATED = 0.95
_FELL = 0.97
_FITS = 0.25  # largest relative residual of a straight line that is still worth telling
_WORTH = 1.1  # times the largest batch: a smaller step up is not worth trying


class BatchPoint(msgspec.Struct, frozen=True):
    """One batch size: items/s, what stands behind it, peak memory as a share of the device's, allocator flushes."""

    batch: int
    throughput: float
    mean: LogMean | None = None
    memory_share: float | None = None
    case_id: str = ""
    retries: float | None = None


class Curve(msgspec.Struct, frozen=True):
    """What the points (by batch size) say. `saturated`: the smallest batch within 95 % of the top.

    `overhead_s` is what a step costs whatever its size, from a fit of step time = overhead + batch ÷ rate; None where
    that line does not fit. `fell`: the worst point beyond the top that is below it by more than the noise. `apart`:
    whether each point is significantly different from the first.
    """

    points: tuple[BatchPoint, ...]
    top: BatchPoint
    saturated: BatchPoint
    low: bool
    rising: bool
    fell: BatchPoint | None
    overhead_s: float | None
    apart: tuple[bool, ...]


def read_curve(points: Sequence[BatchPoint], rounds: InRounds | None = None) -> Curve | None:
    """Return the reading of one curve; None under three batch sizes. Batch sizes differ, throughputs are positive.

    `rounds`: the cases of the points, where one run measured them in turn.
    """
    ordered = tuple(sorted(points, key=lambda p: p.batch))
    if len(ordered) < _FEWEST:
        return None
    noise = _Noise(ordered, rounds)
    top = max(ordered, key=lambda p: p.throughput)
    at = ordered.index(top)
    beyond = [p for p in ordered[at + 1 :] if p.throughput <= _FELL * top.throughput and noise.above(top, p)]
    first = ordered[0]
    return Curve(
        points=ordered,
        top=top,
        saturated=next(p for p in ordered if p.throughput >= _SATURATED * top.throughput),
        low=first.throughput < (1.0 - rules.FIXED_COST.least) * top.throughput and noise.above(top, first),
        rising=at == len(ordered) - 1 and ordered[-2].throughput < _SATURATED * top.throughput
        and noise.above(top, ordered[-2]),
        fell=min(beyond, key=lambda p: p.throughput, default=None),
        overhead_s=_overhead_s(ordered[: at + 1], noise),
        apart=tuple(noise.apart(p, ordered[0]) for p in ordered),
    )  # fmt: skip


class _Noise:
    """How far two points must lie apart to be two."""

    def __init__(self, points: Sequence[BatchPoint], rounds: InRounds | None) -> None:
        self._rounds = rounds
        means = [p.mean for p in points if p.mean is not None]
        deviation, df = pooled(means) if means else (_ASSUMED_DEVIATION, math.inf)
        self.deviation, self._df = deviation, float(df)
        self._points = len(points)
        self._pairs = len(points) * (len(points) - 1) / 2

    def above(self, high: BatchPoint, low: BatchPoint) -> bool:
        """Return whether `high` is above `low` by more than the noise: pooled over all points, and in these two."""
        if (paired := self._paired(high, low, self._pairs)) is not None:
            return paired[1] > 1.0
        trials = [p.mean.trials if p.mean is not None else 1 for p in (high, low)]
        error = self.deviation * math.sqrt(sum(1.0 / n for n in trials))
        gap = math.log(high.throughput / low.throughput)
        if gap <= t_quantile(1.0 - _LEVEL / self._pairs, self._df) * error:
            return False
        return high.mean is None or low.mean is None or ratio(high.mean, low.mean)[0] > 1.0

    def apart(self, a: BatchPoint, b: BatchPoint) -> bool:
        """Return whether two points are significantly different, when all are compared with one of them."""
        if a is b:
            return False
        if (paired := self._paired(a, b, self._points - 1)) is not None:
            return not paired[1] <= 1.0 <= paired[2]
        if a.mean is None or b.mean is None:
            return True
        low, high = ratio(a.mean, b.mean)
        return not low <= 1.0 <= high

    def _paired(self, a: BatchPoint, b: BatchPoint, comparisons: float) -> tuple[float, float, float] | None:
        if self._rounds is None:
            return None
        return self._rounds.ratio(a.case_id, b.case_id, bonferroni(comparisons, _LEVEL))


def _overhead_s(points: Sequence[BatchPoint], noise: _Noise) -> float | None:
    """Fit step time = overhead + batch ÷ rate by least squares of relative errors.

    None where it is not above zero by two standard errors, or where a point lies more than a quarter off the line.
    """
    if len(points) < _FEWEST:
        return None
    times = [p.batch / p.throughput for p in points]
    # relative errors: each equation divided by its time, so that o·(1/t) + s·(b/t) = 1
    rows = [(1.0 / t, p.batch / t) for p, t in zip(points, times, strict=True)]
    a = sum(x * x for x, _ in rows)
    b = sum(x * y for x, y in rows)
    c = sum(y * y for _, y in rows)
    d, e = sum(x for x, _ in rows), sum(y for _, y in rows)
    determinant = a * c - b * b
    if determinant <= 0.0:
        return None
    overhead, slope = (c * d - b * e) / determinant, (a * e - b * d) / determinant
    residuals = [overhead * x + slope * y - 1.0 for x, y in rows]
    if slope <= 0.0 or max(map(abs, residuals)) > _FITS:
        return None
    spread = max(noise.deviation**2, sum(r * r for r in residuals) / (len(rows) - 2))
    return overhead if overhead > 2.0 * math.sqrt(spread * c / determinant) else None


def advise(curve: Curve, configuration: Mapping[str, Scalar], ran_out: int | None = None) -> list[Advice]:
    """Return what the curve says: low at small batches, the optimum, the decline beyond it, where it stops to rise.

    `ran_out`: the smallest batch size beyond the curve that ran out of memory.
    """
    found = []
    if curve.low:
        found.append(_low(curve, configuration))
    if curve.fell is not None:
        found += [_optimum(curve, configuration), _decline(curve, curve.fell, configuration)]
    elif curve.rising:
        found.append(_rising(curve, ran_out))
    elif curve.saturated.batch != curve.points[-1].batch:
        found.append(Advice((Statement("saturated", {"batch_size": curve.saturated.batch}),)))
    return found


def speed_up(curve: Curve, item: str) -> Statement:
    """Return how many times the throughput of the smallest batch size each other one has.

    Of one whose interval holds 1 that the two are not significantly different.
    """
    first = curve.points[0]
    others = tuple(
        Statement("speed_up_at", {"batch_size": p.batch, "ratio": p.throughput / first.throughput})
        if apart else Statement("speed_up_none", {"batch_size": p.batch})
        for p, apart in zip(curve.points[1:], curve.apart[1:], strict=True)
    )  # fmt: skip
    return Statement(
        "speed_up", {"batch_size": first.batch, "rate": first.throughput, "unit": f"{item}s/s", "others": others}
    )


def _low(curve: Curve, configuration: Mapping[str, Scalar]) -> Advice:
    first, top = curve.points[0], curve.top
    seen = [Statement("low", {"batch_size": first.batch, "share": first.throughput / top.throughput})]
    if curve.overhead_s is not None:
        parts = [min(1.0, curve.overhead_s * p.throughput / p.batch) for p in (first, top)]
        seen.append(Statement("fixed_cost", {
            "fixed_s": curve.overhead_s, "share": parts[0], "batch_size": first.batch, "share_at_top": parts[1],
            "top": top.batch,
        }))  # fmt: skip
    rule, setting = rules.FIXED_COST, _setting(configuration)
    return Advice(tuple(seen), rule.causes(setting), rule.remedies(setting, curve.saturated.batch))


def _optimum(curve: Curve, configuration: Mapping[str, Scalar]) -> Advice:
    size = {"batch_size": curve.top.batch}
    remedies = [Remedy("optimum", size, "batch_size")]
    if _setting(configuration).trains:
        remedies.append(Remedy("optimum_accumulated", size, "grad_accumulation"))
    if curve.top is curve.points[0]:
        return Advice((Statement("highest_at_smallest", size),), (), tuple(remedies))
    causes = (Statement("enough_at_once"), Statement("memory_suffices"))
    return Advice((Statement("highest_between", size),), causes, tuple(remedies))


def _setting(configuration: Mapping[str, Scalar]) -> Setting:
    return Setting(configuration, trains="grad_accumulation" in configuration)  # an axis of training only


def _decline(curve: Curve, fell: BatchPoint, configuration: Mapping[str, Scalar]) -> Advice:
    seen = [Statement("falls", {"share": 1.0 - fell.throughput / curve.top.throughput, "batch_size": fell.batch})]
    if fell.retries:
        seen.append(Statement("flushed_there", {"times": fell.retries}))
    elif fell.memory_share is not None and fell.memory_share > SAFE_SHARE:
        seen.append(Statement("memory_in_use_there", {"share": fell.memory_share}))
    rule, setting = rules.PRESSURE, _setting(configuration)
    return Advice(tuple(seen), rule.causes(setting), rule.remedies(setting))


def _rising(curve: Curve, ran_out: int | None) -> Advice:
    top, before = curve.top, curve.points[-2]
    gain = top.throughput / before.throughput - 1.0
    seen = [Statement("rises", {"batch_size": top.batch, "share": gain, "before": before.batch})]
    fits = 2 * top.batch
    if top.memory_share is not None:
        seen.append(Statement("memory_in_use", {"share": top.memory_share}))
        fits = int(min(2.0, SAFE_SHARE / top.memory_share) * top.batch)  # memory grows no faster than the batch
    if ran_out is not None:
        seen.append(Statement("ran_out", {"batch_size": ran_out}))
        fits = min(fits, (top.batch + ran_out) // 2)
    larger = (Remedy("batch_size", {"batch_size": fits}, "batch_size"),) if fits >= _WORTH * top.batch else ()
    return Advice(tuple(seen), (), larger)
