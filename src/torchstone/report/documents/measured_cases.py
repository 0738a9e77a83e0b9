"""The measured Cases of one workload on one device as a table: how each ended, its rate, phases and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from torchstone.analysis.advice.grouping import varying_axes
from torchstone.analysis.summary import CaseSummary
from torchstone.core import units
from torchstone.core.figures import PHASE
from torchstone.core.schema.axis import scalar_word
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import PHASES
from torchstone.core.schema.peak_memory import DEVICE_PEAKS, HOST_PEAK
from torchstone.core.schema.trial import Status
from torchstone.report.document import Column, Table


def measured_cases(cases: Sequence[CaseSummary]) -> Table:
    """Return a row a Case. What none of them has is no column."""
    return Table(tuple(_columns(cases)))


def _columns(cases: Sequence[CaseSummary]) -> Iterator[Column]:
    for axis in varying_axes(cases):
        yield Column(axis.replace("_", " "), tuple(scalar_word(case.configuration.get(axis)) for case in cases))
    yield Column("ended", tuple(_ended(case) for case in cases), 1, left=True)
    yield from _figure(cases, f"{cases[0].workload.item}s/s", ("throughput",), lambda e: units.significant(e.value, 4))
    spreads = tuple(units.spread(e.value, e.low, e.high) if (e := _of(one, ("throughput",))) else "" for one in cases)
    if any(spreads):
        yield Column("±", spreads)
    yield from _figure(cases, "step", ("step_time_mean",), _time)
    for phase in PHASES:
        yield from _figure(cases, phase, (f"{PHASE}{phase}_s",), _time, 4)
    device = cases[0].placement.device
    yield from _figure(cases, "host memory", (HOST_PEAK,), _bytes, 3)
    if device != "cpu":
        yield from _figure(cases, "device memory", DEVICE_PEAKS, _bytes, 3)
    yield Column("verdict", tuple(str(case.verdict) for case in cases), 1, left=True)


def _figure(
    cases: Sequence[CaseSummary], title: str, figures: Sequence[str], shown: Callable[[Estimate], str], rank: int = 0
) -> Iterator[Column]:
    found = [_of(case, figures) for case in cases]
    if any(found):
        yield Column(title, tuple(shown(e) if e is not None else units.MISSING for e in found), rank)


def _of(case: CaseSummary, figures: Sequence[str]) -> Estimate | None:
    return next((case.estimates[name] for name in figures if name in case.estimates), None)


def _time(found: Estimate) -> str:
    return units.quantity(found.value, "s")


def _bytes(found: Estimate) -> str:
    return units.quantity(found.value, "bytes")


def _ended(case: CaseSummary) -> str:
    ends = Counter(trial.outcome.status for trial in case.trials)
    failed = next((status for status in ends if status != Status.OK), None)
    if failed is None:
        return "ok" if ends else "not measured"
    told = str(failed).replace("_", " ")
    return f"{told} ({ends[failed]} of {ends.total()})" if Status.OK in ends else told
