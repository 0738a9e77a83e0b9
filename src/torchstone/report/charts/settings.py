"""The pictures over settings: throughput by ranks, the Pareto front, the roofline, and predicted memory by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.advice.grouping import groups, on_devices_here, varying_axes
from torchstone.analysis.memory_fit import USUAL_ERROR, FitRow, MemoryAnswer
from torchstone.analysis.scaling import SIZES, Scaling, scaling, scaling_rows
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, short_names, without_middle
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.metric import KINDS, peak_memory
from torchstone.core.schema.ranks import AXES_OF_RANKS, BACKEND, NO_STRATEGY, NODES, STRATEGY, items_together
from torchstone.report.charts.batch_sizes import MOST_CURVES, ends_of, interval_words, joined
from torchstone.report.charts.cases import case_rate, device_names, workload_name
from torchstone.report.document import Chart

RANKS = "throughput_vs_ranks"
_MOST_RANK_PANELS, _MOST_PARETO_PANELS = 12, 8
_AROUND = 1.25  # times to both sides of the points
_LEADING = ((1, 2, 5), tuple(range(1, 10)))  # digits of round numbers
_FEWEST, _MOST_POINTS = 3, 400
_MOST_NAMED = 8  # points of a front that have a number and a line of words
_FRONT, _BEATEN = "on the front", "beaten in both"
_LATENCY = ("latency_per_batch_p50_s", "time_to_first_token_p50_s")
_TERA = 1e12
_AROUND_ROOF = 4.0  # times to both sides of the points, so that the roof's edge may be seen
_MOST_BARS, _BAR, _BESIDE_BARS = 16, 44, 160
_SETTING = 32  # characters

_Settings = Mapping[str, Scalar]
_Of = Callable[[CaseSummary], Estimate | None]


# ── throughput by ranks ─────────────────────────────────────────────────────────────────────────────────────


class _Kind(msgspec.Struct, frozen=True):
    """One way to scale: what the batch is that stays the same, its column, and the baseline and efficiency by it."""

    title: str
    batch: str
    size: Callable[[_Settings], Scalar]
    baseline: Callable[[Scaling], CaseSummary | None]
    efficiency: Callable[[Scaling], Estimate | None]


_KINDS = (
    _Kind("same batch of a rank", "batch", lambda c: c.get("batch_size"), lambda p: p.weak_baseline, lambda p: p.weak),
    _Kind("same batch in all", "batch in all", items_together, lambda p: p.strong_baseline, lambda p: p.strong),
)


def ranks_chart(run: RunSummary) -> Chart | None:
    """Return a panel for each workload, device and kind of scaling; None where there are no two numbers of ranks."""
    name_of = device_names(run.machine)
    found: list[Panel] = []
    told: list[str] = []
    for cases in groups(on_devices_here(run)):
        points = list(scaling_rows(scaling(cases)))
        for kind in _KINDS:
            if any(kind.baseline(point) is not None for point in points):
                found.append(_ranks_panel(points, kind, f"{workload_name(cases[0])} on {name_of(cases[0])}"))
                told += filter(None, (_largest(points, kind),))
    if not found:
        return None
    lost = f"{len(found) - _MOST_RANK_PANELS} more panels are left out" if len(found) > _MOST_RANK_PANELS else ""
    picture = Picture("Throughput by number of ranks", tuple(found[:_MOST_RANK_PANELS]), lost, columns=2)
    says = "Throughput by number of ranks: with 95 % confidence intervals; dashed: in proportion to the ranks"
    return Chart(RANKS, "; ".join((says, *told[:1])), picture)


def _largest(points: Sequence[Scaling], kind: _Kind) -> str | None:
    """Return what the largest number of ranks brings at best, for who cannot see it."""
    known = [(p.ranks, e.value, p) for p in points if (e := kind.efficiency(p)) is not None and not e.is_wide]
    if not known:
        return None
    ranks, share, point = max(known, key=lambda one: one[:2])
    strategy = point.case.configuration.get(STRATEGY)
    return f"{ranks} ranks ({strategy}, {kind.title}) reach {units.percent(share)} of that"


def _ranks_panel(points: Sequence[Scaling], kind: _Kind, where: str) -> Panel:
    related = _curves(points, kind)
    curves = _kept(related, kind)
    short_of = short_names(curves)
    cases = {short_of[setting]: [(point.ranks, point.case) for point in own] for setting, own in curves.items()}
    values, failed, drawn = joined(cases, lambda case: case.estimates.get("throughput"), "ranks")
    shown = {(value["curve"], value["ranks"]) for value in values}
    ideal = tuple(_ideal(curves, short_of, kind, shown))
    x = vl.doubled("ranks", "ranks", (int(value["ranks"]) for value in (*values, *failed)))
    ends = _axis_ends((*values, *ideal))
    y = vl.number_axis("value", f"{points[0].case.workload.item}s/s in all", log=True, ends=ends)
    if ends is not None and (ticks := _round_numbers(*ends)):
        y["axis"] = {"values": ticks}
    subtitle = f"{interval_words(drawn)}; dashed: in proportion to the ranks"
    if len(curves) < len(related):
        lost_curves = len(related) - len(curves)
        subtitle += f"; of more than {MOST_CURVES} curves a panel the fastest; {lost_curves} more are in the tables"
    marks = (*vl.failures(failed), vl.guide(ideal), vl.line("piece"), vl.interval_bar())
    shades = vl.colours("curve", [value["curve"] for value in values] or short_of.values(), tuple(short_of.values()))
    return vl.panel(kind.title, x, y, marks, values, shades, subtitle=subtitle, group=where, width=360, height=260)


def _round_numbers(low: float, high: float) -> Sequence[float]:
    """Return round numbers between two ends above 0, for a logarithmic axis; none where there are fewer than three.

    Vega leaves out the number of a power of ten where that of nine tenths is near.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leading in _LEADING:
        values = [float(f"{digit}e{power}") for power in powers for digit in leading]
        shown = [value for value in values if low <= value <= high]
        if len(shown) >= 3:
            return shown
    return ()


def _curves(points: Sequence[Scaling], kind: _Kind) -> dict[str, tuple[Scaling, ...]]:
    """Return the Cases that are joined, by what sets them apart: those of a curve that has, or is, a baseline."""
    baselines = {case.case_id for point in points if (case := kind.baseline(point)) is not None}
    apart = _varying(points, kind)
    found: dict[str, dict[int, Scaling]] = {}
    for point in points:
        words = ", ".join(_setting_words(point.case.configuration, kind, apart))
        best = found.setdefault(words, {})
        # Of several that share their ranks and the batch in all, the baseline stays, or else the fastest.
        best[point.ranks] = max(
            filter(None, (best.get(point.ranks), point)), key=lambda p: (p.case.case_id in baselines, case_rate(p.case))
        )
    related = {
        words: own
        for words, own in found.items()
        if any(kind.baseline(p) is not None or p.case.case_id in baselines for p in own.values())
    }
    return {words: tuple(own[ranks] for ranks in sorted(own)) for words, own in related.items()}


def _kept(curves: Mapping[str, Sequence[Scaling]], kind: _Kind) -> dict[str, Sequence[Scaling]]:
    """Return the curves that colours can tell apart: baselines, then the fastest, in the order of all."""
    own = {case.case_id for points in curves.values() for p in points if (case := kind.baseline(p)) is not None}

    def order(words: str) -> tuple[bool, float]:
        points = curves[words]
        return any(p.case.case_id in own for p in points), max(case_rate(p.case) for p in points)

    kept = sorted(curves, key=order, reverse=True)[:MOST_CURVES]
    return {words: points for words, points in curves.items() if words in kept}


def _axis_ends(values: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return what an axis of all of them shows, intervals too: decades would leave most of it empty."""
    known = [float(end) for value in values for name in ("value", "low", "high") if (end := value.get(name))]
    return (min(known) / _AROUND, max(known) * _AROUND) if known else None


def _varying(points: Sequence[Scaling], kind: _Kind) -> list[str]:
    settings = [point.case.configuration for point in points]
    sizes = SIZES if kind is _KINDS[1] else ("batch_size",)
    axes = [axis for axis in dict.fromkeys(axis for own in settings for axis in own) if axis not in sizes]
    free = [axis for axis in axes if axis not in AXES_OF_RANKS or axis == NODES]
    backends = {own.get(BACKEND) for own in settings if own.get(STRATEGY) != NO_STRATEGY}
    varying = [axis for axis in free if len({str(own.get(axis)) for own in settings}) > 1]
    return [*varying, *([BACKEND] if len(backends) > 1 else [])]


def _setting_words(settings: _Settings, kind: _Kind, apart: Sequence[str]) -> Iterator[str]:
    strategy = settings.get(STRATEGY, NO_STRATEGY)
    yield "one process" if strategy == NO_STRATEGY else str(strategy)
    yield f"{kind.batch} {kind.size(settings)}"
    for axis in apart:
        if axis not in AXES_OF_RANKS or strategy != NO_STRATEGY:
            yield f"{axis} {scalar_word(settings.get(axis))}"


def _ideal(
    curves: Mapping[str, Sequence[Scaling]],
    short_of: Mapping[str, str],
    kind: _Kind,
    shown: Collection[tuple[str, int]],
) -> Iterator[Mapping[str, Any]]:
    """Yield the ends of each dashed line, in the colour of its baseline: straight, as both axes are logarithmic.

    `shown`: curve and ranks of each point that is drawn; no line begins elsewhere.
    """
    own = {point.case.case_id: (short_of[setting], point) for setting, points in curves.items() for point in points}
    most: dict[str, int] = {}
    for point in (point for points in curves.values() for point in points):
        if (baseline := kind.baseline(point)) is not None and baseline.case_id in own:
            most[baseline.case_id] = max(most.get(baseline.case_id, 0), point.ranks)
    for case_id, ranks in most.items():
        curve, first = own[case_id]
        for at in (first.ranks, ranks) if (curve, first.ranks) in shown else ():
            yield {"ranks": at, "curve": curve, "value": case_rate(first.case) * at / first.ranks}


# ── the Pareto front ───────────────────────────────────────────────────────────────────────────────────────


def pareto_chart(run: RunSummary) -> Chart | None:
    """Return a panel a workload and device with three Cases or more, against memory and (of inference) latency."""
    name_of = device_names(run.machine)
    found: list[Panel] = []
    for cases in groups(on_devices_here(run)):
        where = f"{workload_name(cases[0])} on {name_of(cases[0])}"
        for title, cost_of in (("peak memory", _memory), ("latency", _latency)):
            found += filter(None, (_pareto_panel(cases, where, title, cost_of),))
    if not found:
        return None
    picture = Picture("What nothing measured beats in both", tuple(found[:_MOST_PARETO_PANELS]), columns=2)
    says = "Throughput against memory and latency, and the cases that no other beats in both"
    return Chart("pareto_front", says, picture)


def _memory(case: CaseSummary) -> Estimate | None:
    return peak_memory(case.estimates, case.placement.device)


def _latency(case: CaseSummary) -> Estimate | None:
    return next((case.estimates[name] for name in _LATENCY if name in case.estimates), None)


def _rate(case: CaseSummary) -> Estimate | None:
    return case.estimates.get("output_token_throughput") or case.estimates.get("throughput")


def _pareto_panel(cases: Sequence[CaseSummary], where: str, title: str, cost_of: _Of) -> Panel | None:
    known = [
        (case, rate, cost)
        for case in cases
        if case.verdict == Verdict.VALID
        and (rate := _rate(case)) is not None
        and not rate.is_wide
        and (cost := cost_of(case)) is not None
        and not cost.is_wide
    ]
    if len(known) < _FEWEST:
        return None
    divisor, unit = units.scale_of(max(cost.value for _, _, cost in known), known[0][2].unit)
    front = _front([(cost.value, rate.value) for _, rate, cost in known])
    named = dict(zip(front, _named([known[at][0] for at in front], cases), strict=True))
    beaten = [at for at in range(len(known)) if at not in named]
    shown = [*beaten, *front][-_MOST_POINTS:]  # the front is drawn over them
    values = []
    for at in shown:
        _, rate, cost = known[at]
        number, what = named.get(at, ("", _BEATEN))
        ends = {**ends_of(cost, divisor, "x", "x_low", "x_high"), **ends_of(rate, 1.0, "y", "y_low", "y_high")}
        values.append({**ends, "what": what, "number": number})
    kinds = tuple(dict.fromkeys(value["what"] for value in reversed(values)))[::-1]
    shades = vl.shaded("what", {kind: "#bbbbbb" if kind == _BEATEN else vl.PALETTE[0] for kind in kinds})
    rate_unit = f"{cases[0].workload.item}s/s" if "throughput" in known[0][0].estimates else "output tokens/s"
    bars = (vl.interval_bar("y_low", "y_high"), vl.interval_bar("x_low", "x_high", "x"))
    marks = (*bars, vl.dots(), *vl.words("number"))
    lost = len(cases) - len(shown)
    below = interval_words([rate for _, rate, _ in known]) + (f"; {lost} cases without a point" if lost else "")
    x, y, name = vl.number_axis("x", f"{title}, {unit}"), vl.number_axis("y", rate_unit), f"throughput and {title}"
    return vl.panel(name, x, y, marks, values, shades, subtitle=below, group=where, width=360, height=260)


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
            yield str(number), f"{number}: {without_middle(words, 56)}"


# ── the roofline ───────────────────────────────────────────────────────────────────────────────────────────


def roofline_chart(run: RunSummary) -> Chart | None:
    """Return achieved FLOP/s over operations a byte, and the roofs; None where no Case has both and a measured peak."""
    cases = [case for case in run.cases if _intensity(case) is not None][:_MOST_POINTS]
    if not cases:
        return None
    name_of = device_names(run.machine)
    short_of = short_names(_roof_name(case, name_of(case)) for case in cases)
    line_of = {case.case_id: short_of[_roof_name(case, name_of(case))] for case in cases}
    values: list[Mapping[str, Any]] = []
    for case in cases:
        x, done = case.estimates["arithmetic_intensity"].value, case.estimates["achieved_flops"]
        ends = {"y": done.value, "low": done.low, "high": done.high}
        scaled = {name: None if end is None or end <= 0.0 else end / _TERA for name, end in ends.items()}
        values.append({"x": x, "roof": line_of[case.case_id], **scaled})
    x_axis = vl.number_axis("x", "operations a byte of least traffic, FLOP/byte", log=True)
    roofs = _roofs(cases, line_of, [value["x"] for value in values])
    marks = (vl.guide(roofs), vl.interval_bar(), vl.dots())
    shades = vl.colours("roof", line_of.values(), tuple(short_of.values()))
    y = vl.number_axis("y", "TFLOP/s", log=True)
    panel = vl.panel("", x_axis, y, marks, values, shades, width=520, height=320)
    below = interval_words([case.estimates["achieved_flops"] for case in cases])
    title = "Roofline: dashed what the device can at best, dots what the cases do"
    says = "Achieved operations a second over operations a byte, below the measured peak and bandwidth of the device"
    return Chart("roofline", says, Picture(title, (panel,), below, columns=1))


def _intensity(case: CaseSummary) -> tuple[float, float] | None:
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
    low, high = min(places) / _AROUND_ROOF, max(places) * _AROUND_ROOF
    tops = {line_of[case.case_id]: case.ceilings for case in cases if case.ceilings is not None}
    found: list[Mapping[str, Any]] = []
    for name, top in tops.items():
        peak, bandwidth = top.measured_flops or 0.0, top.measured_bandwidth
        ridge = peak / bandwidth if bandwidth else low
        for x in sorted({low, min(max(ridge, low), high), high}):
            y = min(peak, x * bandwidth) if bandwidth else peak
            found.append({"x": x, "y": y / _TERA, "roof": name})
    return found


# ── predicted memory ───────────────────────────────────────────────────────────────────────────────────────


def memory_chart(answer: MemoryAnswer) -> Chart | None:
    """Return a bar for each setting whose peak was predicted, whatever the card; None where there is none."""
    rows: dict[str, FitRow] = {}
    for row in answer.rows:
        if row.peak is not None:
            rows.setdefault(_memory_words(row, answer.axes), row)
    shown = dict(list(rows.items())[:_MOST_BARS])
    if not shown:
        return None
    short_of = short_names(shown, _SETTING)
    values = _parts(shown, short_of)
    kinds = [kind for kind in KINDS if any(value["kind"] == kind for value in values)]
    x, y = vl.name_axis("settings", "", tuple(short_of.values())), vl.number_axis("gib", "peak, GiB")
    width = _BESIDE_BARS + _BAR * len(shown)
    panel = vl.panel("", x, y, (vl.bars(),), values, vl.colours("kind", kinds, KINDS), width=width, height=240)
    left = f"; {len(rows) - len(shown)} more settings are in the table" if len(rows) > len(shown) else ""
    within = f"within ±{100 * USUAL_ERROR:g} % of what the allocator counted in nine of ten checked cases"
    picture = Picture("Peak memory by kind", (panel,), f"predicted; {within}{left}", 1)
    return Chart("memory_by_kind", "Peak memory of each setting by kind", picture)


def _parts(rows: Mapping[str, FitRow], short_of: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    return [
        {"settings": short_of[setting], "kind": kind, "place": place, "gib": row.peak.kinds[kind] / 2**30}
        for setting, row in rows.items()
        if row.peak is not None
        for place, kind in enumerate(KINDS)
        if row.peak.kinds.get(kind)
    ]


def _memory_words(row: FitRow, axes: Sequence[str]) -> str:
    point: Mapping[str, Scalar] = {axis: row.configuration.get(axis) for axis in axes if axis in row.configuration}
    told = [f"{axis} {scalar_word(value)}" for axis, value in point.items()]
    return ", ".join((model_name(row.model), *told))
