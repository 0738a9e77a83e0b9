"""The pictures of a run over its batch sizes: throughput, latency, memory, energy, efficiency, phases of a step.

A curve is a device, or of one device a setting, with failures in their place. Points are joined only where no batch
size lies between that another curve of the panel was tried at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.analysis.advice.analyses import batch_size_analyses
from torchstone.analysis.advice.grouping import groups, on_devices_here, over_devices
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Panel, Picture, short_names
from torchstone.core.figures import PHASE
from torchstone.core.schema.axis import followers, scalar_word
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.metric import PEAKS, PHASES
from torchstone.core.schema.trial import Status
from torchstone.report.charts.cases import case_rate, device_names, workload_name
from torchstone.report.document import Chart

THROUGHPUT, LATENCY = "throughput_vs_batch_size", "latency_vs_batch_size"
MOST_CURVES = 8  # of a panel: colours that can be told apart
WIDE = "±50 % or more"
_MOST_PANELS = 12
_MOST_PHASED = 6  # workloads and devices whose phases are shown
_MOST_NAMED = 2  # curves that are named where they failed
_MOST_UPRIGHT = 34  # characters that stand upright in a panel
_FEWEST = 2  # batch sizes that are a curve
_SCALING = "scaling"  # no figure of a case: it is one of several together
_WIDTH = 360

Row = Mapping[str, Any]


# ── curves ──────────────────────────────────────────────────────────────────────────────────────────────────


class PlacedCase(msgspec.Struct, frozen=True):
    """A Case whose batch size is a number, what its device is called, and that number."""

    device: str
    size: int
    case: CaseSummary


class Named(msgspec.Struct, frozen=True):
    """Cases of one workload, by the panel they stand in and the curve they belong to. `order`: of all curves."""

    panels: Mapping[str, Mapping[str, tuple[PlacedCase, ...]]]
    order: tuple[str, ...]
    left_out: int = 0  # curves beyond those that can be told apart

    @property
    def sizes(self) -> int:
        """How many batch sizes there are."""
        return len({one.size for curves in self.panels.values() for own in curves.values() for one in own})


def places_of(cases: Sequence[CaseSummary], name_of: Callable[[CaseSummary], str]) -> list[PlacedCase]:
    """Return the Cases that have a number as their batch size. `name_of`: what the device of a Case is called."""
    return [
        PlacedCase(name_of(case), size, case)
        for case in cases
        if isinstance(size := case.configuration.get("batch_size"), int) and not isinstance(size, bool)
    ]


def labelled_curves(cases: Sequence[PlacedCase]) -> Named:
    """Return the Cases of one workload as curves: of several devices a panel a setting, of one a curve a setting.

    Of more than MOST_CURVES curves in a panel the fastest stay, in their order.
    """
    devices = short_names(one.device for one in cases)
    settings = short_names(_settings(cases))
    several = len(devices) > 1
    found: dict[str, dict[str, dict[int, PlacedCase]]] = {}
    for one, setting in zip(cases, _settings(cases), strict=True):
        device, words = devices[one.device], settings[setting]
        panel, curve = (words, device) if several else ("", words or device)
        found.setdefault(panel, {}).setdefault(curve, {}).setdefault(one.size, one)
    alone = "".join(devices.values())
    kept = {panel: _best(curves) for panel, curves in found.items()}
    shown = {curve for curves in kept.values() for curve in curves}
    every = devices.values() if several else (words or alone for words in settings.values())
    order = tuple(curve for curve in every if curve in shown)
    lost = sum(len(curves) for curves in found.values()) - sum(map(len, kept.values()))
    return Named(kept, order, lost)


def _best(curves: Mapping[str, Mapping[int, PlacedCase]]) -> dict[str, tuple[PlacedCase, ...]]:
    ranked = sorted(curves, key=lambda name: max(case_rate(one.case) for one in curves[name].values()), reverse=True)
    kept = set(ranked[:MOST_CURVES])
    return {name: tuple(own[size] for size in sorted(own)) for name, own in curves.items() if name in kept}


def _settings(cases: Sequence[PlacedCase]) -> list[str]:
    """Return in words what sets each Case apart from the others, beside device and batch size.

    What follows the batch size, as a learning rate, counts only where one batch size was tried with several.
    """
    following = followers("batch_size")
    told = _apart(cases, following)
    keys = Counter((one.device, one.size, words) for one, words in zip(cases, told, strict=True))
    return told if max(keys.values(), default=1) == 1 else _apart(cases, ())


def _apart(cases: Sequence[PlacedCase], aside: Sequence[str]) -> list[str]:
    axes = dict.fromkeys(axis for one in cases for axis in one.case.configuration)
    varying = [
        axis
        for axis in axes
        if axis not in ("batch_size", *aside) and len({str(one.case.configuration.get(axis)) for one in cases}) > 1
    ]
    return [", ".join(_word(axis, one.case) for axis in varying) for one in cases]


def _word(axis: str, case: CaseSummary) -> str:
    value = case.configuration.get(axis)
    alone = isinstance(value, str) and value not in ("on", "off", "auto")
    return str(value) if alone else f"{axis} {scalar_word(value)}"


# ── a panel ─────────────────────────────────────────────────────────────────────────────────────────────────


def panels(
    title: str, named: Named, of: Callable[[CaseSummary], Estimate | None], unit: str = "", group: str = ""
) -> Iterator[Panel]:
    """Yield a panel for each set of curves that has a value. `unit`: what y counts; "": that of the estimates."""
    for where, curves in named.panels.items():
        known = [e for own in curves.values() for one in own if (e := of(one.case)) is not None]
        if known:
            alone = "".join(curves) if len(curves) == 1 < len(named.order) else ""  # such a panel has no legend
            heading = ", ".join(filter(None, (title, where, alone)))
            yield _curves(heading, curves, named, of, _scale(known, unit), interval_words(known), group)


def _scale(known: Sequence[Estimate], unit: str) -> tuple[float, str]:
    """Return divisor and unit in which the greatest of the values reads well."""
    if unit:
        return 1.0, unit
    return units.scale_of(max(abs(one.value) for one in known), known[0].unit)


def _curves(
    title: str,
    curves: Mapping[str, Sequence[PlacedCase]],
    told: Named,
    of: Callable[[CaseSummary], Estimate | None],
    scale: tuple[float, str],
    subtitle: str,
    group: str,
) -> Panel:
    every = {one.size for each in told.panels.values() for own in each.values() for one in own}
    places = [str(size) for size in sorted(every)]  # those of all panels: their axes are one
    cases = {curve: [(one.size, one.case) for one in own] for curve, own in curves.items()}
    values, failed, _ = joined(cases, of, "batch", str, scale[0])
    marks = (*vl.failures(failed), vl.line("piece"), vl.interval_bar())
    shades = vl.colours("curve", [value["curve"] for value in values] or curves, told.order)
    x, y = vl.steps("batch", "batch size", places), vl.number_axis("value", scale[1])
    return vl.panel(title, x, y, marks, values, shades, subtitle=subtitle, group=group, width=_WIDTH)


def joined(
    curves: Mapping[str, Sequence[tuple[int, CaseSummary]]],
    of: Callable[[CaseSummary], Estimate | None],
    column: str,
    shown: Callable[[int], int | str] = int,
    divisor: float = 1.0,
) -> tuple[list[Row], list[Row], list[Estimate]]:
    """Return the points of curves, a word at each place where some have none, and the estimates that are drawn.

    `curves`: their Cases by rising place, which stands in `column` as `shown`.
    """
    places = sorted({place for own in curves.values() for place, _ in own})
    values: list[Row] = []
    lost: dict[int, dict[str, str]] = {}
    drawn: list[Estimate] = []
    for curve, own in curves.items():
        piece, before = 0, -1
        for place, case in own:
            found = of(case) if case.verdict != Verdict.INVALID else None
            if found is None or found.is_wide:
                if (why := WIDE if found is not None else failure_of(case)) is not None:
                    lost.setdefault(place, {})[curve] = why
                continue
            piece += places.index(place) != before + 1
            before = places.index(place)
            drawn.append(found)
            values.append({column: shown(place), "curve": curve, "piece": piece, **ends_of(found, divisor)})
    failed: list[Row] = [{column: shown(place), "word": lost_words(each, len(curves))} for place, each in lost.items()]
    return values, failed, drawn


def ends_of(
    estimate: Estimate, divisor: float = 1.0, value: str = "value", low: str = "low", high: str = "high"
) -> Row:
    """Return an Estimate as columns of these names."""
    ends = {value: estimate.value, low: estimate.low, high: estimate.high}
    return {name: None if end is None else end / divisor for name, end in ends.items()}


def failure_of(case: CaseSummary) -> str | None:
    """Return why a Case has no value that counts; None where nothing failed, or it was not tried."""
    bad = [trial.outcome.status for trial in case.trials if trial.outcome.status != Status.OK]
    if bad:
        return failure_word(bad[0])
    return str(case.verdict) if case.trials and case.verdict == Verdict.INVALID else None


def failure_word(status: Status) -> str:
    """Return how a trial ended, in words: "out of memory"."""
    return str(status).replace("_", " ")


def lost_words(each: Mapping[str, str], curves: int) -> str:
    """Return what became of the curves that have no value at one batch size, in a few words."""
    counted = Counter(each.values())
    told = []
    for why, count in counted.items():
        which = [curve for curve, word in each.items() if word == why]
        where = ", ".join(which) if count <= _MOST_NAMED else f"{count} of {curves}"
        told.append(why if count == curves else f"{why}: {where}")
    text = "; ".join(told)
    if len(text) <= _MOST_UPRIGHT:
        return text
    return (
        f"{next(iter(counted))}: {len(each)} of {curves}"
        if len(counted) == 1
        else f"{len(each)} of {curves} without a value"
    )


def interval_words(estimates: Sequence[Estimate]) -> str:
    """Return what the bars at the points are: "95 % confidence intervals over 3 trials"."""
    having = [one for one in estimates if one.low is not None and one.high is not None]
    if not having:
        return "one trial a case: no interval" if any(one.trials == 1 for one in estimates) else "no interval"
    least, most = min(one.trials for one in having), max(one.trials for one in having)
    count = str(least) if least == most else f"{least} to {most}"
    return f"{100 * having[0].level:g} % confidence intervals over {count} trial{'s' * (most != 1)}"


# ── figures over batch sizes ────────────────────────────────────────────────────────────────────────────────


class _Question(msgspec.Struct, frozen=True):
    """A picture: the name of its file, its title, and figures in words: of each group the first that was measured."""

    name: str
    title: str
    figures: tuple[tuple[tuple[str, str], ...], ...]
    says: str


_RATES = (("output_token_throughput", "output tokens"), ("throughput", ""))
_QUESTIONS = (
    _Question(THROUGHPUT, "Throughput by batch size", (_RATES,), "how throughput moves"),
    _Question(
        LATENCY,
        "Latency by batch size",
        (
            (
                ("latency_per_batch_p50_s", "median latency of a batch"),
                ("time_to_first_token_p50_s", "median TTFT"),
                ("step_time_p50", "median step"),
            ),
            (("latency_per_batch_p95_s", "p95 latency of a batch"), ("time_per_output_token_p50_s", "median TPOT")),
        ),
        "how long a batch takes",
    ),
    _Question(
        "memory_usage",
        "Memory by batch size",
        (
            ((PEAKS[0], "device memory, reserved"),),
            ((PEAKS[1], "device memory, allocated"),),
            ((PEAKS[2], "host memory, resident"),),
            (("kv_cache_bytes", "KV cache"),),
        ),
        "how much memory is taken at most",
    ),
    _Question(
        "energy_vs_batch_size",
        "Energy by batch size",
        ((("energy_per_item_j", "energy an item"),), (("average_power_w", "mean power"),)),
        "how much energy an item takes",
    ),
    _Question(
        "scaling_efficiency",
        "Scaling efficiency by batch size",
        (((_SCALING, "throughput, of what steps of equal length would give"),),),
        "how much of a larger batch is gained",
    ),
    _Question(
        "hardware_efficiency",
        "Share of the peak rate by batch size",
        (
            (("mfu_measured", "MFU (measured peak)"), ("mfu_datasheet", "MFU (datasheet)")),
            (("device_utilization", "device in use"),),
        ),
        "how much of the device is used",
    ),
)


def batch_size_charts(run: RunSummary) -> list[Chart]:
    """Return the pictures that a run has two batch sizes for."""
    name_of = device_names(run.machine)
    workloads = over_devices(on_devices_here(run))
    curves = [(own, labelled_curves(places_of(own, name_of))) for own in workloads]
    drawn = [(own, told) for own, told in curves if told.sizes >= _FEWEST]
    scaling = _scaling(run) if drawn else {}
    several = len(workloads) > 1
    found = [_chart(question, drawn, scaling, several=several) for question in _QUESTIONS]
    return [chart for chart in found if chart is not None]


def _chart(
    question: _Question,
    drawn: Sequence[tuple[Sequence[CaseSummary], Named]],
    scaling: Mapping[str, Estimate],
    *,
    several: bool,
) -> Chart | None:
    found: list[Panel] = []
    sure = True
    for cases, told in drawn:
        group = workload_name(cases[0]) if several else ""
        for figures in question.figures:
            of = [_of(name, scaling) for name, _ in figures]
            measured = [any(one(case) is not None for case in cases) for one in of]
            if any(measured):
                at = measured.index(True)
                sure = sure and all(case.verdict == Verdict.VALID and _is_narrow(of[at](case)) for case in cases)
                figure = figures[at]
                unit = _unit(figure[0], cases[0])
                found += panels(figure[1] or f"{cases[0].workload.item}s/s", told, of[at], unit, group)
    if not found:
        return None
    picture = Picture(question.title, over_one_axis(found[:_MOST_PANELS]), _left_out(drawn, len(found)), columns=2)
    says = f"{question.title}: {question.says}, with 95 % confidence intervals"
    says += f"; {_highest(found[0])}" if sure else "; which is the highest is not known"
    return Chart(question.name, says, picture)


def over_one_axis(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Return the panels, those of one group and unit with the same axis from 0 on, so that heights can be compared."""
    keys = [(panel.group, panel.channel("y")["title"]) for panel in panels]
    tops: dict[tuple[str, str], float] = {}
    for key, panel in zip(keys, panels, strict=True):
        ends = (value.get(name) for value in panel.values for name in ("value", "high"))
        tops[key] = max([tops.get(key, 0.0), *(end for end in ends if end is not None)])
    counts = Counter(keys)
    return tuple(
        _up_to(panel, tops[key]) if counts[key] > 1 and tops[key] > 0.0 else panel
        for key, panel in zip(keys, panels, strict=True)
    )


def _up_to(panel: Panel, top: float) -> Panel:
    y = {**panel.channel("y"), "scale": {"domain": [0.0, top]}}
    return msgspec.structs.replace(panel, view={**panel.view, "encoding": {**panel.view["encoding"], "y": y}})


def _is_narrow(found: Estimate | None) -> bool:
    return found is not None and not found.is_wide


def _highest(one: Panel) -> str:
    """Return the highest point of a panel in words, for who cannot see it."""
    top = max(one.values, key=lambda value: float(value["value"]), default=None)
    if top is None:
        return "no value is certain enough to be drawn"
    which = f" ({top['curve']})" if len(one.channel("color")["scale"]["domain"]) > 1 else ""
    unit = one.channel("y")["title"]
    return f"the highest is {units.significant(top['value'], 3)} {unit} at batch size {top['batch']}{which}"


def _unit(figure: str, case: CaseSummary) -> str:
    if figure == "throughput":
        return f"{case.workload.item}s/s"
    return "output tokens/s" if figure == "output_token_throughput" else ""


def _of(figure: str, scaling: Mapping[str, Estimate]) -> Callable[[CaseSummary], Estimate | None]:
    def of(case: CaseSummary) -> Estimate | None:
        found = scaling.get(case.case_id) if figure == _SCALING else case.estimates.get(figure)
        return found if found is not None and found.supported else None

    return of


def _left_out(drawn: Sequence[tuple[Sequence[CaseSummary], Named]], found: int) -> str:
    """Return what does not fit into a picture; "": nothing."""
    lost = sum(told.left_out for _, told in drawn)
    words = [f"of more than {MOST_CURVES} curves a panel the fastest; {lost} more are in the tables"] if lost else []
    words += [f"{found - _MOST_PANELS} more panels are left out"] if found > _MOST_PANELS else []
    return "; ".join(words)


def _scaling(run: RunSummary) -> dict[str, Estimate]:
    """Return by case_id throughput ÷ that of the smallest batch, over how many times as many items a step has.

    1 is what steps of equal length would give. The intervals of one curve hold together (analysis/advice/analyses.py).
    """
    trials = {case.case_id: case.estimates["throughput"].trials for case in run.cases if "throughput" in case.estimates}
    found = {}
    for one in batch_size_analyses(run):
        first = one.lines[0].value
        for line in one.lines:
            if line.efficiency is None or not isinstance(line.value, int) or not isinstance(first, int) or not first:
                continue
            ends = (line.ratio_low, line.ratio_high)
            low, high = (None if end is None else end * first / line.value for end in ends)
            found[line.case_id] = Estimate(
                line.efficiency, low, high, 0.95, "ratio", "ratio of throughputs", trials[line.case_id], 0
            )
    return found


# ── phases over batch sizes ─────────────────────────────────────────────────────────────────────────────────


def phases_chart(run: RunSummary) -> Chart | None:
    """Return the phases of the fastest setting of each workload and device; None where they were not measured."""
    name_of = device_names(run.machine)
    found: list[Panel] = []
    for cases in groups(on_devices_here(run)):
        taken = places_of(cases, name_of)
        if any(_phases(one.case) for one in taken) and len(found) < 2 * _MOST_PHASED:
            curve, own = _fastest(taken)
            title = ", ".join(dict.fromkeys((workload_name(cases[0]), name_of(cases[0]), curve)))
            found += _phase_panels(title, own)
    if not found:
        return None
    picture = Picture("Where the time of a step goes", tuple(found), columns=2)
    return Chart("time_breakdown", "The time of a step by phase, over batch sizes, as shares and in ms", picture)


def _phases(case: CaseSummary) -> dict[str, Estimate]:
    if case.verdict == Verdict.INVALID:
        return {}
    return {name: case.estimates[key] for name in PHASES if (key := f"{PHASE}{name}_s") in case.estimates}


def _fastest(cases: Sequence[PlacedCase]) -> tuple[str, Sequence[PlacedCase]]:
    (curves,) = labelled_curves(cases).panels.values()  # of one device
    measured = [name for name, own in curves.items() if any(_phases(one.case) for one in own)] or list(curves)
    best = max(measured, key=lambda name: max(case_rate(one.case) for one in curves[name]))
    return best, curves[best]


def _phase_panels(title: str, own: Sequence[PlacedCase]) -> Iterator[Panel]:
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
            scaled = ends_of(found, 1e-3, "ms")
            values.append({"batch": str(one.size), "phase": phase, "place": place, "piece": piece, **scaled})
    x = vl.steps("batch", "batch size", [str(one.size) for one in own])
    shades = vl.phase_colours({value["phase"] for value in values})
    lost_here = vl.failures(lost)
    y, parts = vl.share_axis("share", "share of the step"), (*lost_here, vl.bars())
    yield vl.panel(
        "shares", x, y, parts, [*_shares(values)], shades, subtitle="means over trials", group=title, width=_WIDTH
    )
    times = [{name: value[name] for name in ("batch", "phase", "piece", "ms", "low", "high")} for value in values]
    y, lines, words = vl.number_axis("ms", "ms a step"), (vl.line("piece"), vl.interval_bar()), interval_words(known)
    yield vl.panel("times", x, y, (*lost_here, *lines), times, shades, subtitle=words, group=title, width=_WIDTH)


def _shares(values: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield of each phase its share of the step, in place of its time: a bar tells what it is called after."""
    whole: dict[str, float] = {}
    for value in values:
        whole[value["batch"]] = whole.get(value["batch"], 0.0) + value["ms"]
    for value in values:
        about = {name: value[name] for name in ("batch", "phase", "place")}
        yield {**about, "share": value["ms"] / (whole[value["batch"]] or 1.0)}
