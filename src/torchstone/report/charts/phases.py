"""Where the time of a step goes, over batch sizes: shares as bars, and each phase in ms with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.grouping import groups
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.charts.phase_colours import phase_colours
from torchstone.core.charts.picture import Bars, Coordinate, Failure, Interval, Kind, Line, Panel, Picture
from torchstone.core.figures import PHASE
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.phase import PHASES
from torchstone.report.charts.curves import Placed, failure_of, interval_words, named, placed
from torchstone.report.charts.names import device_names, workload_name
from torchstone.report.document import Chart

_MOST_GROUPS = 6


def phases_chart(run: RunSummary) -> Chart | None:
    """Return the phases of the fastest setting of each workload and device; None where they were not measured."""
    name_of = device_names(run.machine)
    found: list[Panel] = []
    for cases in groups(on_devices_here(run)):
        taken = placed(cases, name_of)
        if any(_phases(one.case) for one in taken) and len(found) < 2 * _MOST_GROUPS:
            curve, own = _fastest(taken)
            title = ", ".join(dict.fromkeys((workload_name(cases[0]), name_of(cases[0]), curve)))
            found += _panels(title, own)
    if not found:
        return None
    picture = Picture("Where the time of a step goes", tuple(found), columns=2)
    return Chart("time_breakdown", "The time of a step by phase, over batch sizes, as shares and in ms", picture)


def _phases(case: CaseSummary) -> dict[str, Estimate]:
    if case.verdict == Verdict.INVALID:
        return {}
    return {name: case.estimates[key] for name in PHASES if (key := f"{PHASE}{name}_s") in case.estimates}


def _rate(case: CaseSummary) -> float:
    found = case.estimates.get("throughput")
    return found.value if found is not None else 0.0


def _fastest(cases: Sequence[Placed]) -> tuple[str, Sequence[Placed]]:
    (curves,) = named(cases, _rate).panels.values()  # of one device
    measured = [name for name, own in curves.items() if any(_phases(one.case) for one in own)] or list(curves)
    best = max(measured, key=lambda name: max(_rate(one.case) for one in curves[name]))
    return best, curves[best]


def _panels(title: str, own: Sequence[Placed]) -> Iterator[Panel]:
    """Yield the shares, and beside them the times with their intervals: these do not fit into a bar of parts."""
    values: list[Mapping[str, Any]] = []
    known: list[Estimate] = []
    lost: list[Mapping[str, Any]] = []
    piece = 0
    for one in own:
        phases = _phases(one.case)
        if not phases:
            piece += 1
            lost += [{"batch": str(one.size), "word": why}] if (why := failure_of(one.case)) is not None else []
        for place, (phase, found) in enumerate(phases.items()):
            known.append(found)
            ends = {"ms": found.value, "low": found.low, "high": found.high}
            scaled = {name: None if end is None else 1e3 * end for name, end in ends.items()}
            values.append({"batch": str(one.size), "phase": phase, "place": place, "piece": piece, **scaled})
    failed = (Failure("word", tuple(lost)),) if lost else ()
    sizes = tuple(str(one.size) for one in own)
    x = Coordinate("batch", "batch size", Kind.STEPS, sizes)
    shades = phase_colours({value["phase"] for value in values})
    ms = Coordinate("ms", "ms a step")
    bars = Bars(Coordinate("ms", "share of the step"), order="place", shares=True)
    words = interval_words(known)
    yield Panel("shares", x, (bars, *failed), tuple(values), shades, "means over trials", title, width=360)
    marks = (Line(ms, piece="piece"), Interval(ms), *failed)
    yield Panel("times", x, marks, tuple(values), shades, words, title, width=360)
