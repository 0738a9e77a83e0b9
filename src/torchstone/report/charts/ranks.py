"""Throughput over the number of ranks, beside as many times that of the fewest: weak and strong scaling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.advice.grouping import groups
from torchstone.analysis.scaling import SIZES, Scaling, rows_of, scaling
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Coordinate, Failure, Guide, Interval, Line, Mark, Panel, Picture
from torchstone.core.schema.axis import Scalar, scalar_word
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.ranks import AXES_OF_RANKS, BACKEND, NO_STRATEGY, NODES, STRATEGY, items_together
from torchstone.report.charts.curves import MOST_CURVES, WIDE, failure_of, interval_words, lost_words
from torchstone.report.charts.names import device_names, workload_name
from torchstone.report.document import Chart

NAME = "throughput_vs_ranks"
_MOST_PANELS = 12
_AROUND = 1.25  # times to both sides of the points
_Settings = Mapping[str, Scalar]


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
        points = list(rows_of(scaling(cases)))
        for kind in _KINDS:
            if any(kind.baseline(point) is not None for point in points):
                found.append(_panel(points, kind, f"{workload_name(cases[0])} on {name_of(cases[0])}"))
                told += filter(None, (_largest(points, kind),))
    if not found:
        return None
    lost = f"{len(found) - _MOST_PANELS} more panels are left out" if len(found) > _MOST_PANELS else ""
    picture = Picture("Throughput by number of ranks", tuple(found[:_MOST_PANELS]), lost, columns=2)
    says = "Throughput by number of ranks: with 95 % confidence intervals; dashed: in proportion to the ranks"
    return Chart(NAME, "; ".join((says, *told[:1])), picture)


def _largest(points: Sequence[Scaling], kind: _Kind) -> str | None:
    """Return what the largest number of ranks brings at best, for who cannot see it."""
    known = [(p.ranks, e.value, p) for p in points if (e := kind.efficiency(p)) is not None and not e.is_wide]
    if not known:
        return None
    ranks, share, point = max(known, key=lambda one: one[:2])
    strategy = point.case.configuration.get(STRATEGY)
    return f"{ranks} ranks ({strategy}, {kind.title}) reach {units.percent(share)} of that"


def _panel(points: Sequence[Scaling], kind: _Kind, where: str) -> Panel:
    related = _curves(points, kind)
    curves = _kept(related, kind)
    names = short_names(curves)
    values, lost, drawn = _values(curves, names)
    item = points[0].case.workload.item
    shown = {(value["curve"], value["ranks"]) for value in values}
    ideal = tuple(_ideal(curves, names, kind, shown))
    y = Coordinate("value", f"{item}s/s in all", logarithmic=True, ends=_ends((*values, *ideal)))
    marks: list[Mark] = [Guide(y, ideal), Line(y, piece="piece"), Interval(y)]
    if lost:
        failed = tuple({"ranks": at, "word": lost_words(each, len(curves))} for at, each in lost.items())
        marks.append(Failure("word", failed))
    x = Coordinate("ranks", "ranks", logarithmic=True, whole=True)
    having = [value["curve"] for value in values] or names.values()
    shades = colours("curve", having, tuple(names.values()))
    subtitle = f"{interval_words(drawn)}; dashed: in proportion to the ranks"
    if len(curves) < len(related):
        lost_curves = len(related) - len(curves)
        subtitle += f"; of more than {MOST_CURVES} curves a panel the fastest; {lost_curves} more are in the tables"
    return Panel(kind.title, x, tuple(marks), tuple(values), shades, subtitle, where, width=360, height=260)


def _values(
    curves: Mapping[str, Sequence[Scaling]], names: Mapping[str, str]
) -> tuple[list[Mapping[str, Any]], dict[int, dict[str, str]], list[Estimate]]:
    """Return the points, by ranks and curve why there is none, and the estimates that are drawn."""
    values: list[Mapping[str, Any]] = []
    lost: dict[int, dict[str, str]] = {}
    drawn: list[Estimate] = []
    places = sorted({point.ranks for own in curves.values() for point in own})
    for words, own in curves.items():
        piece, before = 0, -1
        for point in own:
            found = point.case.estimates.get("throughput") if point.case.verdict != Verdict.INVALID else None
            at = places.index(point.ranks)
            if found is None or found.is_wide:
                if (why := WIDE if found is not None else failure_of(point.case)) is not None:
                    lost.setdefault(point.ranks, {})[names[words]] = why
                continue
            piece += at != before + 1
            before = at
            drawn.append(found)
            ends = {"value": found.value, "low": found.low, "high": found.high}
            values.append({"ranks": point.ranks, "curve": names[words], "piece": piece, **ends})
    return values, lost, drawn


def _curves(points: Sequence[Scaling], kind: _Kind) -> dict[str, tuple[Scaling, ...]]:
    """Return the Cases that are joined, by what sets them apart: those of a curve that has, or is, a baseline."""
    baselines = {case.case_id for point in points if (case := kind.baseline(point)) is not None}
    apart = _varying(points, kind)
    found: dict[str, dict[int, Scaling]] = {}
    for point in points:
        words = ", ".join(_words(point.case.configuration, kind, apart))
        best = found.setdefault(words, {})
        # Of several that share their ranks and the batch in all, the baseline stays, or else the fastest.
        best[point.ranks] = max(
            filter(None, (best.get(point.ranks), point)), key=lambda p: (p.case.case_id in baselines, _rate(p.case))
        )
    related = {
        words: own for words, own in found.items()
        if any(kind.baseline(p) is not None or p.case.case_id in baselines for p in own.values())
    }  # fmt: skip
    return {words: tuple(own[ranks] for ranks in sorted(own)) for words, own in related.items()}


def _kept(curves: Mapping[str, Sequence[Scaling]], kind: _Kind) -> dict[str, Sequence[Scaling]]:
    """Return the curves that colours can tell apart: baselines, then the fastest, in the order of all."""
    own = {case.case_id for points in curves.values() for p in points if (case := kind.baseline(p)) is not None}

    def order(words: str) -> tuple[bool, float]:
        points = curves[words]
        return any(p.case.case_id in own for p in points), max(_rate(p.case) for p in points)

    kept = sorted(curves, key=order, reverse=True)[:MOST_CURVES]
    return {words: points for words, points in curves.items() if words in kept}


def _ends(values: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
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


def _words(settings: _Settings, kind: _Kind, apart: Sequence[str]) -> Iterator[str]:
    strategy = settings.get(STRATEGY, NO_STRATEGY)
    yield "one process" if strategy == NO_STRATEGY else str(strategy)
    yield f"{kind.batch} {kind.size(settings)}"
    for axis in apart:
        if axis not in AXES_OF_RANKS or strategy != NO_STRATEGY:
            yield f"{axis} {scalar_word(settings.get(axis))}"


def _rate(case: CaseSummary) -> float:
    found = case.estimates.get("throughput")
    return found.value if found is not None else 0.0


def _ideal(
    curves: Mapping[str, Sequence[Scaling]], names: Mapping[str, str], kind: _Kind, shown: Collection[tuple[str, int]]
) -> Iterator[Mapping[str, Any]]:
    """Yield the ends of each dashed line, in the colour of its baseline: straight, as both axes are logarithmic.

    `shown`: curve and ranks of each point that is drawn; no line begins elsewhere.
    """
    own = {point.case.case_id: (names[words], point) for words, points in curves.items() for point in points}
    most: dict[str, int] = {}
    for point in (point for points in curves.values() for point in points):
        if (baseline := kind.baseline(point)) is not None and baseline.case_id in own:
            most[baseline.case_id] = max(most.get(baseline.case_id, 0), point.ranks)
    for case_id, ranks in most.items():
        curve, first = own[case_id]
        for at in (first.ranks, ranks) if (curve, first.ranks) in shown else ():
            yield {"ranks": at, "curve": curve, "value": _rate(first.case) * at / first.ranks}
