"""What the recorded Cases say together: the curve over batch sizes, devices beside each other, phases, spread."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.analysis.advice import batch_curve
from torchstone.analysis.advice.checklist import checklist
from torchstone.analysis.advice.curves import curve_of, phases_s, ran_out, read_memory, read_phases, read_single_items
from torchstone.analysis.advice.devices import beside_the_cpu
from torchstone.analysis.advice.questions import three_questions
from torchstone.analysis.advice.spread import read_spread
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.advice import Advice


def patterns(run: RunSummary, case: CaseSummary) -> list[Advice]:
    """Return what is seen of a Case beside those like it, and of each accelerator beside the CPU."""
    beside = (told.advice for told in beside_the_cpu(alike(run, case)))
    return [*over_batch_sizes(run, case), *beside, *of_its_step(run, case)]


def over_batch_sizes(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    """Yield what the curve over batch sizes says of a Case and those like it on the same device."""
    here = [one for one in alike(run, case) if one.placement == case.placement]
    curve = curve_of(case, here, run.machine)
    if curve is not None:
        yield Advice(batch_curve.speed_up(curve, case.workload.item))
        yield from batch_curve.advise(curve, case.configuration, ran_out(case, run.cases))


def of_its_step(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    """Yield what the phases of its step, its memory and its spread say of a Case."""
    yield from read_single_items(case, run)
    yield from read_phases(case, run.machine)
    yield from read_memory(case, run)
    if (spread := read_spread(case, run.procedure)) is not None:
        yield spread


def alike(run: RunSummary, case: CaseSummary) -> list[CaseSummary]:
    """Return the Cases of the same workload that have a figure."""
    return [one for one in run.cases if one.workload == case.workload and "throughput" in one.estimates]


def questions(case: CaseSummary) -> list[str]:
    """Return the three questions of a slow training with their answers."""
    busy = case.estimates.get("device_utilization")
    return three_questions(phases_s(case), busy.value if busy is not None else None)


def to_check(run: RunSummary, case: CaseSummary) -> list[str]:
    """Return the list of what to have looked at before a long training."""
    return checklist(case, alike(run, case), run.machine)
