"""Measured Cases of one workload, read: the step phases of one, and the curves over batch sizes of all others equal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.causes import phase_causes
from torchstone.analysis.advice.choices import SAFE_SHARE, choice_of
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import MEMORY, Setting, recorded_step
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import PHASE
from torchstone.core.schema.advice import Advice, Remedy, Statement
from torchstone.core.schema.axis import Scalar, followers
from torchstone.core.schema.case import Task
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.metric import PHASES
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.core.stats.comparing import LogMean, bonferroni, log_mean, pooled, ratio_interval
from torchstone.core.stats.student import t_quantile

_APART = 1.5  # how far the mean steps of two passes may lie apart before shares of one are no times of the other
_LARGE = 0.10  # half the interval, of the value: results that vary
_TRIALS, _WARMUP, _BUDGET_S = 10, 50, 20.0  # the least that is advised then
_FOLLOWING = ("batch_size", *followers("batch_size"))


def phases_s(case: CaseSummary) -> dict[str, float]:
    """Return the mean time of each phase of a Case's step, as far as they were measured."""
    figures = {name: f"{PHASE}{name}_s" for name in PHASES}
    return {name: case.estimates[figure].value for name, figure in figures.items() if figure in case.estimates}


def read_phases(case: CaseSummary, run: RunSummary) -> list[Advice]:
    """Return what the phases of a Case's step say; nothing where they were not measured."""
    step = recorded_step(run, case)
    found = [Advice((*one.evidence, one.title), one.usual, one.remedies) for one in phase_causes(step)]
    mean_s, apart_s = step.figures.get("step_time_mean"), sum(step.phases_s.values())
    if not found or mean_s is None or not mean_s > 0.0 or 1.0 / _APART <= apart_s / mean_s <= _APART:
        return found
    rough = Statement("rough_shares", {"apart_s": apart_s, "step_s": mean_s})
    return [msgspec.structs.replace(found[0], seen=(*found[0].seen, rough)), *found[1:]]


def read_memory(case: CaseSummary, run: RunSummary) -> list[Advice]:
    """Return how full an accelerator's memory is at its peak; nothing where that is not known."""
    share = choice_of(case, run.machine, ()).memory_share
    if case.placement.device == "cpu" or share is None:
        return []
    (low, high), rule = MEMORY, rules.FULL_MEMORY
    where = "memory_below" if share < low else "memory_above" if share > high else "memory_within"
    seen = Statement(where, {"share": share, "low": low, "high": high})
    if share > rule.least:
        known = recorded_step(run, case).circumstances
        return [Advice((seen, Statement("likely_to_run_out")), rule.causes(known), rule.remedies(known))]
    if share >= low:
        return [Advice((seen,))]
    if (size := ran_out(case, run.cases)) is not None:
        return [Advice((seen, Statement("ran_out", {"batch_size": size})))]
    return [Advice((seen,), (), (Remedy("larger_batch_if_faster", axis="batch_size"),))]


def read_single_items(case: CaseSummary, run: RunSummary) -> list[Advice]:
    """Return advice on a training of batch size 1 (a Dataset brings no other), where none larger was measured."""
    sizes = {one.configuration.get("batch_size") for one in run.cases if one.workload == case.workload}
    if case.workload.task != Task.TRAIN or sizes != {1}:
        return []
    return [Advice((Statement("single_items"),), (), (Remedy("batch_sizes"), Remedy("tune_batch_size")))]


def read_spread(case: CaseSummary, procedure: Procedure) -> list[Advice]:
    """Return what a wide interval of the throughput says; nothing where it is narrow, or there is none.

    `procedure`: how it was measured; more of each is advised.
    """
    rate = case.estimates.get("throughput")
    if rate is None or rate.low is None or rate.high is None or rate.value <= 0.0:
        return []
    if max(rate.high - rate.value, rate.value - rate.low) <= _LARGE * rate.value:
        return []
    around = (rate.value, rate.low, rate.high)
    causes = ("few_trials", "warmup_not_over", "changing_clocks")
    return [
        Advice(
            (Statement("varies", {"spread": around, "trials": rate.trials}),),
            (rules.OTHER_WORK, *map(Statement, causes)),
            (
                rules.END_OTHERS,
                Remedy("trials", {"trials": max(_TRIALS, 2 * rate.trials)}),
                Remedy("warmup", {"steps": max(_WARMUP, 2 * (procedure.warmup or 0))}),
                Remedy("budget", {"budget_s": max(_BUDGET_S, 4 * procedure.budget_s)}),
                Remedy("ab"),
            ),
        )
    ]


def ran_out(case: CaseSummary, cases: Sequence[CaseSummary]) -> int | None:
    """Return the smallest batch size that ran out of memory, of the Cases that are otherwise like this one."""
    there = [c for c in cases if c.workload == case.workload and c.placement == case.placement]
    over = [c for c in _alike(case, there) if any(t.outcome.status == Status.OUT_OF_MEMORY for t in c.trials)]
    sizes = [c.configuration.get("batch_size") for c in over]
    return min((size for size in sizes if isinstance(size, int)), default=None)


def curve_of(case: CaseSummary, cases: Sequence[CaseSummary], machine: Machine) -> BatchCurve | None:
    """Return the curve over the batch sizes of the Cases that are otherwise like `case`; None under three."""
    alike = _alike(case, cases)
    return read_curve([p for c in alike if (p := _point(c, machine)) is not None], InRounds(alike))


def curves(cases: Sequence[CaseSummary], machine: Machine) -> list[tuple[CaseSummary, BatchCurve]]:
    """Return every curve there is, each with one of its Cases."""
    leaders: list[CaseSummary] = []
    known: set[str] = set()
    for case in cases:
        if case.case_id not in known:  # those on a curve are alike whichever of them one begins with
            known.update(c.case_id for c in _alike(case, cases))
            leaders.append(case)
    found = [(case, curve_of(case, cases, machine)) for case in leaders]
    return [(case, curve) for case, curve in found if curve is not None]


def _alike(case: CaseSummary, cases: Sequence[CaseSummary]) -> list[CaseSummary]:
    """Return the Cases along a curve. The learning rate changes no speed, and often follows the batch: it may differ.

    Where it varies by itself, so that a batch size comes twice, it must be equal.
    """
    own, same_rate = _rest(case, _FOLLOWING), _rest(case, _FOLLOWING[:1])
    alike = [c for c in cases if _rest(c, _FOLLOWING) == own]
    if len({c.configuration.get("batch_size") for c in alike}) == len(alike):
        return alike
    return [c for c in alike if _rest(c, _FOLLOWING[:1]) == same_rate]


def _rest(case: CaseSummary, without: Sequence[str]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((k, v) for k, v in case.configuration.items() if k not in without))


def _point(case: CaseSummary, machine: Machine) -> BatchPoint | None:
    rate, size = case.estimates.get("throughput"), case.configuration.get("batch_size")
    if rate is None or rate.value <= 0.0 or rate.is_wide or not isinstance(size, int):
        return None
    device = machine.device(case.placement.device, case.placement.index)
    held = device.memory_bytes if device is not None else None
    memory = case.peak_memory_bytes
    flushed = case.estimates.get("allocator_retries")
    return BatchPoint(
        size,
        rate.value,
        log_mean(rate.value, rate.low, rate.high, rate.trials, rate.level),
        memory / held if memory is not None and held else None,
        case.case_id,
        flushed.value if flushed is not None else None,
    )


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


class BatchCurve(msgspec.Struct, frozen=True):
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


def read_curve(points: Sequence[BatchPoint], rounds: InRounds | None = None) -> BatchCurve | None:
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
    return BatchCurve(
        points=ordered,
        top=top,
        saturated=next(p for p in ordered if p.throughput >= _SATURATED * top.throughput),
        low=first.throughput < (1.0 - rules.FIXED_COST.least) * top.throughput and noise.above(top, first),
        rising=at == len(ordered) - 1
        and ordered[-2].throughput < _SATURATED * top.throughput
        and noise.above(top, ordered[-2]),
        fell=min(beyond, key=lambda p: p.throughput, default=None),
        overhead_s=_overhead_s(ordered[: at + 1], noise),
        apart=tuple(noise.apart(p, ordered[0]) for p in ordered),
    )


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
        return high.mean is None or low.mean is None or ratio_interval(high.mean, low.mean)[0] > 1.0

    def apart(self, a: BatchPoint, b: BatchPoint) -> bool:
        """Return whether two points are significantly different, when all are compared with one of them."""
        if a is b:
            return False
        if (paired := self._paired(a, b, self._points - 1)) is not None:
            return not paired[1] <= 1.0 <= paired[2]
        if a.mean is None or b.mean is None:
            return True
        low, high = ratio_interval(a.mean, b.mean)
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


def advise(curve: BatchCurve, configuration: Mapping[str, Scalar], ran_out: int | None = None) -> list[Advice]:
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


def speed_up(curve: BatchCurve, item: str) -> Statement:
    """Return how many times the throughput of the smallest batch size each other one has.

    Of one whose interval holds 1 that the two are not significantly different.
    """
    first = curve.points[0]
    others = tuple(
        Statement("speed_up_at", {"batch_size": p.batch, "ratio": p.throughput / first.throughput})
        if apart
        else Statement("speed_up_none", {"batch_size": p.batch})
        for p, apart in zip(curve.points[1:], curve.apart[1:], strict=True)
    )
    return Statement(
        "speed_up", {"batch_size": first.batch, "rate": first.throughput, "unit": f"{item}s/s", "others": others}
    )


def _low(curve: BatchCurve, configuration: Mapping[str, Scalar]) -> Advice:
    first, top = curve.points[0], curve.top
    seen = [Statement("low", {"batch_size": first.batch, "share": first.throughput / top.throughput})]
    if curve.overhead_s is not None:
        parts = [min(1.0, curve.overhead_s * p.throughput / p.batch) for p in (first, top)]
        seen.append(
            Statement(
                "fixed_cost",
                {
                    "fixed_s": curve.overhead_s,
                    "share": parts[0],
                    "batch_size": first.batch,
                    "share_at_top": parts[1],
                    "top": top.batch,
                },
            )
        )
    rule, setting = rules.FIXED_COST, _setting(configuration)
    return Advice(tuple(seen), rule.causes(setting), rule.remedies(setting, curve.saturated.batch))


def _optimum(curve: BatchCurve, configuration: Mapping[str, Scalar]) -> Advice:
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


def _decline(curve: BatchCurve, fell: BatchPoint, configuration: Mapping[str, Scalar]) -> Advice:
    seen = [Statement("falls", {"share": 1.0 - fell.throughput / curve.top.throughput, "batch_size": fell.batch})]
    if fell.retries:
        seen.append(Statement("flushed_there", {"times": fell.retries}))
    elif fell.memory_share is not None and fell.memory_share > SAFE_SHARE:
        seen.append(Statement("memory_in_use_there", {"share": fell.memory_share}))
    rule, setting = rules.PRESSURE, _setting(configuration)
    return Advice(tuple(seen), rule.causes(setting), rule.remedies(setting))


def _rising(curve: BatchCurve, ran_out: int | None) -> Advice:
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
