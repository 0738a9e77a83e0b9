"""Measured Cases of one workload, read: the step phases of one, and the curves over batch sizes of all others equal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analysis.advice import batch_curve, rules
from torchstone.analysis.advice.batch_curve import BatchPoint, Curve
from torchstone.analysis.advice.causes import phase_causes
from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.advice.evidence import recorded_step
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.setting import MEMORY
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.figures import PHASE
from torchstone.core.schema.advice import Advice, Remedy, Statement
from torchstone.core.schema.axis import followers
from torchstone.core.schema.case import Task
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.phase import PHASES
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.core.stats.comparing import log_mean

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
        known = recorded_step(run, case).known
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
    return [Advice(
        (Statement("varies", {"spread": around, "trials": rate.trials}),),
        (rules.OTHER_WORK, *map(Statement, causes)),
        (
            rules.END_OTHERS, Remedy("trials", {"trials": max(_TRIALS, 2 * rate.trials)}),
            Remedy("warmup", {"steps": max(_WARMUP, 2 * (procedure.warmup or 0))}),
            Remedy("budget", {"budget_s": max(_BUDGET_S, 4 * procedure.budget_s)}), Remedy("ab"),
        ),
    )]  # fmt: skip


def ran_out(case: CaseSummary, cases: Sequence[CaseSummary]) -> int | None:
    """Return the smallest batch size that ran out of memory, of the Cases that are otherwise like this one."""
    there = [c for c in cases if c.workload == case.workload and c.placement == case.placement]
    over = [c for c in _alike(case, there) if any(t.outcome.status == Status.OUT_OF_MEMORY for t in c.trials)]
    sizes = [c.configuration.get("batch_size") for c in over]
    return min((size for size in sizes if isinstance(size, int)), default=None)


def curve_of(case: CaseSummary, cases: Sequence[CaseSummary], machine: Machine) -> Curve | None:
    """Return the curve over the batch sizes of the Cases that are otherwise like `case`; None under three."""
    alike = _alike(case, cases)
    return batch_curve.read_curve([p for c in alike if (p := _point(c, machine)) is not None], InRounds(alike))


def curves(cases: Sequence[CaseSummary], machine: Machine) -> list[tuple[CaseSummary, Curve]]:
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
        size, rate.value, log_mean(rate.value, rate.low, rate.high, rate.trials, rate.level),
        memory / held if memory is not None and held else None, case.case_id,
        flushed.value if flushed is not None else None,
    )  # fmt: skip
