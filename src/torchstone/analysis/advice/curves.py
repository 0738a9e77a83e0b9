"""Measured Cases of one workload, read: the step phases of one, and the curves over batch sizes of all others equal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analysis.advice import batch_curve, phases, rules, usual
from torchstone.analysis.advice.batch_curve import BatchPoint, Curve
from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.setting import Setting
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.figures import PHASE
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.axis import followers
from torchstone.core.schema.case import Task
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.phase import PHASES
from torchstone.core.schema.trial import Status
from torchstone.core.stats.ratio import log_mean

_APART = 1.5  # how far the mean steps of two passes may lie apart before shares of one are no times of the other
_FOLLOWING = ("batch_size", *followers("batch_size"))


def setting_of(case: CaseSummary, machine: Machine) -> Setting:
    """Return what a record knows of a Case beside its figures."""
    device = machine.device(case.placement.device, case.placement.index)
    busy = case.estimates.get("device_utilization")
    return Setting(
        case.configuration, machine.host.logical_cores, case.placement.device != "cpu",
        busy.value if busy is not None else None, (device.precisions or None) if device is not None else None,
        next((trial.facts for trial in case.trials if trial.outcome.status == Status.OK), {}),
        case.workload.task == Task.TRAIN,
    )  # fmt: skip


def phases_s(case: CaseSummary) -> dict[str, float]:
    """Return the mean time of each phase of a Case's step, as far as they were measured."""
    figures = {name: f"{PHASE}{name}_s" for name in PHASES}
    return {name: case.estimates[figure].value for name, figure in figures.items() if figure in case.estimates}


def read_phases(case: CaseSummary, machine: Machine) -> list[Advice]:
    """Return what the phases of a Case's step say; nothing where they were not measured."""
    found = phases.advise(phases_s(case), setting_of(case, machine))
    mean, apart_s = case.estimates.get("step_time_mean"), sum(phases_s(case).values())
    if not found or mean is None or not mean.value > 0.0 or 1.0 / _APART <= apart_s / mean.value <= _APART:
        return found
    steps_s = units.quantity(apart_s, "s"), units.quantity(mean.value, "s")
    why = f"the steps with phases took {steps_s[0]}, the others {steps_s[1]}: the shares are rough"
    seen = f"{found[0].seen}; {why}"
    return [msgspec.structs.replace(found[0], seen=seen), *found[1:]]


def read_memory(case: CaseSummary, run: RunSummary) -> list[Advice]:
    """Return how full an accelerator's memory is at its peak; nothing where that is not known."""
    share = choice_of(case, run.machine, ()).memory_share
    if case.placement.device == "cpu" or share is None:
        return []
    seen = f"peak memory is {units.quantity(share, 'ratio')} of the device's, {usual.place_in(usual.MEMORY, share)}"
    if share > rules.FULL_MEMORY.least:
        rule, setting = rules.FULL_MEMORY, setting_of(case, run.machine)
        return [Advice(f"{seen}: likely to run out", tuple(rule.usual(setting)), rules.texts(rule, setting))]
    if share >= usual.MEMORY[0]:
        return [Advice(seen)]
    if (size := ran_out(case, run.cases)) is not None:
        return [Advice(f"{seen}, and batch_size {size} ran out")]
    return [Advice(seen, (), (f"{rules.LARGER_BATCH.text}, if throughput still rises with it",))]


def read_single_items(case: CaseSummary, run: RunSummary) -> list[Advice]:
    """Return advice on a training of batch size 1 (a Dataset brings no other), where none larger was measured."""
    sizes = {one.configuration.get("batch_size") for one in run.cases if one.workload == case.workload}
    if case.workload.task != Task.TRAIN or sizes != {1}:
        return []
    seen = "batch_size is 1, and no larger one was measured: each item pays for a whole step"
    return [Advice(seen, (), ("--batch-sizes 8,32,128", "torchstone tune, which chooses it"))]


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
