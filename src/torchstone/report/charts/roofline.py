"""The roofline: what each Case achieves, below what its device can at that intensity (analysis/roofline)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Coordinate, Dots, Guide, Interval, Panel, Picture
from torchstone.core.schema.estimate import Verdict
from torchstone.report.charts.curves import interval_words
from torchstone.report.charts.names import device_names
from torchstone.report.document import Chart

_MOST = 400  # Cases
_G, _T = 1e9, 1e12
_AROUND = 4.0  # times to both sides of the points, so that the roof's edge may be seen


def roofline_chart(run: RunSummary) -> Chart | None:
    """Return achieved FLOP/s over operations a byte, and the roofs; None where no Case has both and a measured peak."""
    cases = [case for case in run.cases if _place(case) is not None][:_MOST]
    if not cases:
        return None
    name_of = device_names(run.machine)
    names = short_names(_roof_name(case, name_of(case)) for case in cases)
    line_of = {case.case_id: names[_roof_name(case, name_of(case))] for case in cases}
    values: list[Mapping[str, Any]] = []
    for case in cases:
        x, done = case.estimates["arithmetic_intensity"].value, case.estimates["achieved_flops"]
        ends = {"y": done.value, "low": done.low, "high": done.high}
        scaled = {name: None if end is None or end <= 0.0 else end / _T for name, end in ends.items()}
        values.append({"x": x, "roof": line_of[case.case_id], **scaled})
    y = Coordinate("y", "TFLOP/s", logarithmic=True)
    guide = Guide(y, tuple(_roofs(cases, line_of, [value["x"] for value in values])))
    x_axis = Coordinate("x", "operations a byte of least traffic, FLOP/byte", logarithmic=True)
    words = interval_words([case.estimates["achieved_flops"] for case in cases])
    shades = colours("roof", line_of.values(), tuple(names.values()))
    panel = Panel("", x_axis, (guide, Interval(y), Dots(y)), tuple(values), shades, width=520, height=320)
    title = "Roofline: dashed what the device can at best, dots what the cases do"
    says = "Achieved operations a second over operations a byte, below the measured peak and bandwidth of the device"
    return Chart("roofline", says, Picture(title, (panel,), words, columns=1))


def _place(case: CaseSummary) -> tuple[float, float] | None:
    """Return (intensity, FLOP/s) of a Case that has a roof; None of another."""
    if case.verdict == Verdict.INVALID:
        return None
    intensity, done = (case.estimates.get(name) for name in ("arithmetic_intensity", "achieved_flops"))
    top = case.ceilings
    if intensity is None or done is None or top is None or top.measured_flops is None:
        return None
    known = intensity.value > 0.0 and done.value > 0.0 and top.measured_flops > 0.0
    return (intensity.value, done.value) if known else None


def _roof_name(case: CaseSummary, device: str) -> str:
    precision = case.ceilings.precision if case.ceilings is not None else ""
    return f"{device}, {precision}"


def _roofs(cases: list[CaseSummary], line_of: Mapping[str, str], places: list[float]) -> list[Mapping[str, Any]]:
    """Return the corners of each roof: the slope of the bandwidth up to the peak, then the peak."""
    low, high = min(places) / _AROUND, max(places) * _AROUND
    tops = {line_of[case.case_id]: case.ceilings for case in cases if case.ceilings is not None}
    found: list[Mapping[str, Any]] = []
    for name, top in tops.items():
        peak, bandwidth = top.measured_flops or 0.0, top.measured_bandwidth
        ridge = peak / bandwidth if bandwidth else low
        for x in sorted({low, min(max(ridge, low), high), high}):
            y = min(peak, x * bandwidth) if bandwidth else peak
            found.append({"x": x, "y": y / _T, "roof": name})
    return found
