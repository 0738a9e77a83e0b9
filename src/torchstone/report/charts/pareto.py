"""What nothing beats: throughput against memory and against latency, each point with its intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts.palette import short
from torchstone.core.charts.picture import Colours, Coordinate, Dots, Interval, Panel, Picture, Reach, Words
from torchstone.core.schema.axis import scalar_word
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.memory_figures import peak_memory
from torchstone.report.charts.curves import interval_words
from torchstone.report.charts.names import device_names, workload_name
from torchstone.report.document import Chart

_FEWEST, _MOST = 3, 400  # points
_MOST_PANELS = 8
_MOST_NAMED = 8  # points of a front that have a number and a line of words
_FRONT, _BEATEN = "on the front", "beaten in both"
_LATENCY = ("latency_per_batch_p50_s", "time_to_first_token_p50_s")
_Of = Callable[[CaseSummary], Estimate | None]


def pareto_chart(run: RunSummary) -> Chart | None:
    """Return a panel a workload and device with three Cases or more, against memory and (of inference) latency."""
    name_of = device_names(run.machine)
    found: list[Panel] = []
    for cases in groups(on_devices_here(run)):
        where = f"{workload_name(cases[0])} on {name_of(cases[0])}"
        found += filter(None, (_panel(cases, where, "peak memory", _memory), _panel(cases, where, "latency", _latency)))
    if not found:
        return None
    picture = Picture("What nothing measured beats in both", tuple(found[:_MOST_PANELS]), columns=2)
    says = "Throughput against memory and latency, and the cases that no other beats in both"
    return Chart("pareto_front", says, picture)


def _memory(case: CaseSummary) -> Estimate | None:
    return peak_memory(case.estimates, case.placement.device)


def _latency(case: CaseSummary) -> Estimate | None:
    return next((case.estimates[name] for name in _LATENCY if name in case.estimates), None)


def _rate(case: CaseSummary) -> Estimate | None:
    return case.estimates.get("output_token_throughput") or case.estimates.get("throughput")


def _panel(cases: Sequence[CaseSummary], where: str, title: str, cost_of: _Of) -> Panel | None:
    known = [
        (case, rate, cost) for case in cases
        if case.verdict == Verdict.VALID and (rate := _rate(case)) is not None and not rate.is_wide
        and (cost := cost_of(case)) is not None and not cost.is_wide
    ]  # fmt: skip
    if len(known) < _FEWEST:
        return None
    divisor, unit = units.scale_of(max(cost.value for _, _, cost in known), known[0][2].unit)
    front = _front([(cost.value, rate.value) for _, rate, cost in known])
    named = dict(zip(front, _named([known[at][0] for at in front], cases), strict=True))
    beaten = [at for at in range(len(known)) if at not in named]
    shown = [*beaten, *front][-_MOST:]  # the front is drawn over them
    values = tuple(
        {**_ends("x", known[at][2], divisor), **_ends("y", known[at][1], 1.0), "what": named.get(at, ("", _BEATEN))[1],
         "number": named.get(at, ("", ""))[0]} for at in shown
    )  # fmt: skip
    kinds = tuple(dict.fromkeys(value["what"] for value in reversed(values)))[::-1]
    shades = Colours("what", kinds, tuple("#bbbbbb" if kind == _BEATEN else "#0072b2" for kind in kinds))
    rate_unit = f"{cases[0].workload.item}s/s" if "throughput" in known[0][0].estimates else "output tokens/s"
    y = Coordinate("y", rate_unit)
    marks = (Interval(y, "y_low", "y_high"), Reach(y, "x_low", "x_high"), Dots(y), Words(y, "number"))
    lost = len(cases) - len(shown)
    words = interval_words([rate for _, rate, _ in known]) + (f"; {lost} cases without a point" if lost else "")
    x = Coordinate("x", f"{title}, {unit}")
    return Panel(f"throughput and {title}", x, marks, values, shades, words, where, width=360, height=260)


def _ends(axis: str, found: Estimate, divisor: float) -> dict[str, Any]:
    ends = {axis: found.value, f"{axis}_low": found.low, f"{axis}_high": found.high}
    return {name: None if end is None else end / divisor for name, end in ends.items()}


def _front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of those (cost, gain) that no other beats in both, by rising cost."""
    found: list[int] = []
    for at in sorted(range(len(points)), key=lambda at: (points[at][0], -points[at][1])):
        if not found or points[at][1] > points[found[-1]][1]:
            found.append(at)
    return found


def _named(front: Sequence[CaseSummary], cases: Sequence[CaseSummary]) -> Iterator[tuple[str, str]]:
    """Yield the number of each, and its line in the legend: its settings; of many only that it is on the front."""
    axes = varying_axes(cases)
    for number, case in enumerate(front, start=1):
        if len(front) > _MOST_NAMED:
            yield "", _FRONT
        else:
            point: Mapping[str, Any] = {axis: case.configuration.get(axis) for axis in axes}
            words = ", ".join(f"{axis} {scalar_word(value)}" for axis, value in point.items())
            yield str(number), f"{number}: {short(words, 56)}"
