"""The pictures along time: single steps, gauges, a training, losses, and the course of a search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from torchstone.analysis.advice.trainings import LOSS_AXES, compared, curves_of
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import MOST_POINTS, Panel, Picture, short_names, thinned, without_middle
from torchstone.core.figures import closed_loop_only, raw
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.core.schema.trial import Purpose, Series, Stage, Status, Trial
from torchstone.core.stats.quantile import Quantile, of_one_trial, over_several
from torchstone.core.stats.readings import spans_s
from torchstone.report.charts.cases import chosen_cases, device_names, of_trials, titles_of, trials_of, workload_name
from torchstone.report.document import Chart

_MOST = 800  # points of a panel: a line of more is no clearer, and a file of many panels has to be sent
_FEWEST_STEPS, _FEWEST_READINGS = 5, 3  # that are an order, a distribution, or a curve
_UNEVEN = 20.0  # times the median or the least, from which on a logarithmic axis shows both
_MOST_READINGS, _MOST_GAUGED, _MOST_LINES, _MOST_SPANS = 400, 3, 8, 200  # points, cases, devices, windows
_MOST_DIVIDERS = 12  # epochs whose ends are marked
_MOST_LOSS_PANELS, _MOST_CURVES, _MOST_LOSSES = 6, 8, 1600
_MOST_TRIALS, _MOST_FAILED = 500, 6  # of a search: points, and words beside each other
LONG_S = 600.0
_WIDTH = 380
_TIME = {True: "latency of a batch", False: "time of a step"}
_ONE = "one training: no interval"
_PROBE, _FINAL, _BEST = "probe of the search", "trial of the final round", "best so far"
_SEARCH = {_PROBE: "#999999", _FINAL: "#0072b2", _BEST: "#d55e00"}
GAUGES_NAME = "gpu_metrics"


# ── single steps ───────────────────────────────────────────────────────────────────────────────────────────


def sample_charts(summary: RunSummary, run: Run) -> list[Chart]:
    """Return the steps in the order of time, and their distribution; nothing where no raw values were kept."""
    cases = chosen_cases(summary)
    titles = titles_of(cases, summary)
    order = [p for case in cases if (p := _in_order(titles[case.case_id], trials_of(case, run))) is not None]
    spread = [p for case in cases if (p := _distribution(titles[case.case_id], trials_of(case, run))) is not None]
    found = []
    if order:
        says = "Each step in the order of time, from the first of the warm-up on; 0 is where the warm-up ends"
        found.append(Chart("batch_times", says, Picture("Steps in the order of time", tuple(order), columns=2)))
    if spread:
        says = "Which share of batches takes at most so long, with 95 % confidence intervals"
        picture = Picture("Distribution of times", tuple(spread), columns=2)
        found.append(Chart("latency_distribution", says, picture))
    return found


# ── in the order of time ──────────────────────────────────────────────────────────────────────────────────


def _in_order(title: str, trials: Sequence[Trial]) -> Panel | None:
    """Return the steps of each trial; those of the warm-up have numbers below 0."""
    steps = {f"trial {number}": _steps(trial) for number, trial in enumerate(trials, start=1)}
    known = {name: one for name, one in steps.items() if len(one[1]) >= _FEWEST_STEPS}
    if not known:
        return None
    every = [value for before, after in known.values() for value in (*before, *after)]
    divisor, unit = units.scale_of(sorted(every)[len(every) // 2], "s")
    uneven = min(every) > 0.0 and max(every) > _UNEVEN * sorted(every)[len(every) // 2]
    values = tuple(
        {"step": place, "y": value / divisor, "trial": name}
        for name, (before, after) in known.items()
        for place, value in thinned(_numbered(before, after), max(4, _MOST // len(known)))
    )
    warm = any(before for before, _ in known.values())
    ends = vl.dividers([{"step": 0, "word": "warm-up ends"}]) if warm else []
    fewer = (
        "; of each stretch the extremes"
        if sum(len(before) + len(after) for before, after in known.values()) > len(values)
        else ""
    )
    x = vl.count_axis("step", "step, from the end of the warm-up" if warm else "step", values)
    y = vl.number_axis("y", unit, log=uneven, zero=False)
    marks, shades = (vl.line(faint=len(values) > 4 * len(known)), *ends), vl.colours("trial", known, tuple(known))
    subtitle = f"single steps of {of_trials(trials)}{fewer}"
    return vl.panel(title, x, y, marks, values, shades, subtitle=subtitle, width=_WIDTH)


def _numbered(before: Sequence[float], after: Sequence[float]) -> list[tuple[float, float]]:
    return [(place - len(before), value) for place, value in enumerate((*before, *after))]


def _steps(trial: Trial) -> tuple[Sequence[float], Sequence[float]]:
    """Return the times of the steps of the warm-up, and of the windows behind it: finite ones."""
    latency = closed_loop_only(trial)
    after = raw(trial, "latency_s", True) if latency else raw(trial, "step_time_s", False)
    before = () if latency else trial.values("step_time_s", Stage.WARMUP)
    return [v for v in before if math.isfinite(v)], [v for v in after if math.isfinite(v)]


# ── as a distribution ───────────────────────────────────────────────────────────────────────────────────────


def _distribution(title: str, trials: Sequence[Trial]) -> Panel | None:
    """Return the share of batches over the time they take at most: the mean over trials, or of one trial alone."""
    latency = any(raw(trial, "latency_s", True) for trial in trials)
    metric = "latency_s" if latency else "step_time_s"
    taken = [[v for v in raw(trial, metric, latency) if math.isfinite(v)] for trial in trials]
    taken = [values for values in taken if len(values) >= _FEWEST_STEPS]
    if not taken:
        return None
    several = len(taken) > 1
    quantiles = over_several(taken) if several else of_one_trial(taken[0])
    divisor, unit = units.scale_of(quantiles[len(quantiles) // 2].value, "s")
    values = tuple(_quantile_points(quantiles, divisor, is_open=not several))
    y = vl.number_axis("share", f"share of {'batches' if latency else 'steps'}", ends=(0.0, 1.0))
    if several and all(point["low"] is None for point in values):
        words = f"mean of {len(taken)} trials, which differ too much for an interval (wider than ±50 %)"
    elif several:
        words = f"mean of {len(taken)} trials; band: 95 % confidence interval of each quantile over them"
    else:
        words = "one trial; band: 95 % for the whole curve (Dvoretzky-Kiefer-Wolfowitz), open at its ends"
    ends = None if several else _ends(values)
    x = vl.number_axis("x", f"{_TIME[latency]}, {unit}", ends=ends)
    x = x if ends is not None else {**x, "scale": vl.TIGHT}
    marks = (vl.band(clip=ends is not None), vl.line())
    return vl.panel(title, x, y, marks, values, subtitle=words, width=_WIDTH)


def _quantile_points(quantiles: Sequence[Quantile], divisor: float, *, is_open: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the points. `is_open`: an end of the band that is not known reaches to the end of the axis."""
    least, most = (quantiles[0].value, quantiles[-1].value) if is_open else (None, None)
    for one in quantiles[:MOST_POINTS]:
        ends = (least if one.low is None else one.low, most if one.high is None else one.high)
        wide = not is_open and units.is_wide(one.value, *ends)
        low, high = (None if end is None or wide else end / divisor for end in ends)
        yield {"share": one.share, "x": one.value / divisor, "low": low, "high": high}


def _ends(values: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    least, most = values[0]["x"], values[-1]["x"]
    return (least, most) if least < most else None


# ── gauges ─────────────────────────────────────────────────────────────────────────────────────────────────


class DrawnGauge(msgspec.Struct, frozen=True):
    """`factor`: from the unit of its readings to that of the axis. `rises`: a counter, drawn as its rate."""

    metric: str
    title: str
    factor: float = 1.0
    rises: bool = False


GAUGES = (
    DrawnGauge("device_utilization", "device in use, %", 100.0),
    DrawnGauge("device_memory_used_bytes", "device memory in use, GiB", 2.0**-30),
    DrawnGauge("device_temperature_c", "device temperature, °C"),
    DrawnGauge("device_power_w", "device power, W"),
    DrawnGauge("device_clock_hz", "device clock, GHz", 1e-9),
    DrawnGauge("process_cpu_s", "CPU cores in use", rises=True),
    DrawnGauge("rss_bytes", "resident memory, GiB", 2.0**-30),
    DrawnGauge("host_clock_hz", "CPU clock, GHz", 1e-9),
    DrawnGauge("host_temperature_c", "CPU temperature, °C"),
)


def telemetry_chart(summary: RunSummary, run: Run) -> Chart | None:
    """Return the gauges of one trial of each chosen Case, the measured windows shaded; None without readings."""
    cases, found = chosen_cases(summary)[:_MOST_GAUGED], list[Panel]()
    titles = titles_of(cases, summary)
    for case in cases:
        for trial in trials_of(case, run)[:1]:
            group = f"{titles[case.case_id]}, its first trial"
            found += gauge_panels(trial.series, spans_s(trial), "since the trial was asked for", group)
    if not found:
        return None
    says = "What the gauges read along the time of one trial; the measured windows are shaded"
    words = "single readings; shaded: the measured windows"
    return Chart(GAUGES_NAME, says, Picture("Gauges along time", tuple(found), words, columns=2))


def gauge_panels(
    series: Sequence[Series], spans: Sequence[tuple[float, float]], since: str, group: str = ""
) -> Iterator[Panel]:
    """Yield a panel a gauge that was read, a line a device. `spans`: (begin, end) in s, shaded."""
    for gauge in GAUGES:
        own = [one for one in series if one.metric == gauge.metric and one.rank == 0][:_MOST_LINES]
        names = short_names(one.device or one.source for one in own)
        read = {
            names[one.device or one.source]: points
            for one in own
            if len(points := gauge_points(one, gauge)) >= _FEWEST_READINGS
        }
        if not read:
            continue
        long = max(points[-1][0] for points in read.values()) > LONG_S
        each_s, unit = (60.0, "min") if long else (1.0, "s")
        values = tuple(
            {"at": at_s / each_s, "y": y, "line": name}
            for name, points in read.items()
            for at_s, y in thinned(points, max(4, _MOST_READINGS // len(read)))
        )
        shaded = [{"from": begin / each_s, "to": end / each_s} for begin, end in spans[:_MOST_SPANS]]
        x, y = vl.number_axis("at", f"{since}, {unit}"), vl.number_axis("y", gauge.title)
        marks = (*([vl.stretches(shaded)] if shaded else []), vl.line())
        yield vl.panel(
            "", x, y, marks, values, vl.colours("line", read, tuple(read)), group=group, width=_WIDTH, height=150
        )


def gauge_points(series: Series, gauge: DrawnGauge) -> list[tuple[float, float]]:
    """Return (seconds, reading) where both are numbers, in order of time; of a counter its rise a second."""
    readings = sorted(
        (at_s, value)
        for at_s, value in zip(series.at_s, series.values, strict=False)
        if math.isfinite(at_s) and math.isfinite(value)
    )
    if gauge.rises:
        readings = [((a + b) / 2.0, (w - v) / (b - a)) for (a, v), (b, w) in pairwise(readings) if b > a and w >= v]
    return [(at_s, value * gauge.factor) for at_s, value in readings]


# ── a training ─────────────────────────────────────────────────────────────────────────────────────────────


def training_charts(metrics: TrainingMetrics, device: str) -> list[Chart]:
    """Return the pictures that a training has data for. `device`: what its device is called."""
    name = without_middle(device, 40)
    found = []
    if panels := tuple(_epochs(metrics, name)):
        says = "Loss and accuracy over the epochs, of the training items and of those held out"
        found.append(Chart("training_metrics", says, Picture("Loss and accuracy by epoch", panels, _ONE, columns=2)))
    if (steps := _all_steps(metrics, name)) is not None:
        picture = Picture("Steps in the order of time", (steps,), columns=1)
        found.append(Chart("batch_times", "The time of each step of the training, in order", picture))
    spans = [(epoch.began_s, epoch.ended_s) for epoch in metrics.epochs]
    if gauges := tuple(gauge_panels(metrics.telemetry, spans, "since the training began")):
        says = "What the gauges read along the time of the training; its epochs are shaded"
        found.append(
            Chart(GAUGES_NAME, says, Picture("Gauges along time", gauges, "single readings; shaded: epochs", columns=2))
        )
    return found


def _epochs(metrics: TrainingMetrics, name: str) -> Iterator[Panel]:
    for what in ("loss", "accuracy"):
        values: list[Mapping[str, Any]] = []
        for line, field in ((f"{name} - Train", f"train_{what}"), (f"{name} - Val", f"val_{what}")):
            told = [(epoch.epoch, getattr(epoch, field)) for epoch in metrics.epochs]
            known = [(float(number), value) for number, value in told if value is not None and math.isfinite(value)]
            values += [{"epoch": at, "y": value, "line": line} for at, value in thinned(known, _MOST)]
        if values:
            order = (f"{name} - Train", f"{name} - Val")
            x, y = vl.count_axis("epoch", "epoch", values), vl.number_axis("y", what, zero=what == "accuracy")
            shades = vl.colours("line", [value["line"] for value in values], order)
            yield vl.panel(what, x, y, (vl.line(),), values, shades, width=360)


def _all_steps(metrics: TrainingMetrics, name: str) -> Panel | None:
    every = [time_s for epoch in metrics.epochs for time_s in epoch.batch_times_s]
    known = [(float(place), time_s) for place, time_s in enumerate(every) if math.isfinite(time_s) and time_s > 0.0]
    if len(known) < 2:
        return None
    divisor, unit = units.scale_of(sorted(value for _, value in known)[len(known) // 2], "s")
    kept = thinned(known, _MOST)
    values = tuple({"step": place, "y": value / divisor} for place, value in kept)
    ends: list[Mapping[str, Any]] = []
    for epoch in metrics.epochs[:-1] if len(metrics.epochs) <= _MOST_DIVIDERS else ():
        before = ends[-1]["step"] if ends else 0
        ends.append({"step": before + len(epoch.batch_times_s)})
    words = "single steps; dashed: a new epoch" if ends else "single steps"
    words += "; of each stretch the extremes" if len(kept) < len(known) else ""
    x, y = vl.count_axis("step", "step", values), vl.number_axis("y", unit, zero=False)
    marks = (vl.line(faint=True), *(vl.dividers(ends) if ends else ()))
    return vl.panel(name, x, y, marks, values, subtitle=words, width=640)


# ── losses ─────────────────────────────────────────────────────────────────────────────────────────────────


def losses_chart(summary: RunSummary, run: Run) -> Chart | None:
    """Return a panel for each group of trainings that can be compared, a curve a training; None without losses."""
    curves = curves_of(run)
    name_of = device_names(summary.machine)
    panels = []
    for group in compared(summary)[:_MOST_LOSS_PANELS]:
        having = [case for case in group if curves.get(case.case_id)]
        axes = [axis for axis in LOSS_AXES if len({str(case.configuration.get(axis)) for case in having}) > 1]
        names = short_names(_setting(case, axes) for case in having)
        values: list[Mapping[str, Any]] = []
        for case in having[:_MOST_CURVES]:
            curve = curves[case.case_id][0]
            points = [(place * curve.items, loss) for place, loss in enumerate(curve.losses) if math.isfinite(loss)]
            each = max(4, _MOST_LOSSES // min(len(having), _MOST_CURVES))
            values += [{"x": x, "y": y, "line": names[_setting(case, axes)]} for x, y in thinned(points, each)]
        if values:
            panels.append(_loss_panel(values, tuple(names.values()), group[0], name_of(group[0])))
    if not panels:
        return None
    says = "The loss of each training over the items it saw, a curve for each setting that was compared"
    words = "one training a curve, its trials repeat it: no interval"
    return Chart("loss_convergence", says, Picture("Loss by items seen", tuple(panels), words, columns=2))


def _setting(case: CaseSummary, axes: list[str]) -> str:
    return ", ".join(f"{axis} {case.configuration.get(axis)}" for axis in axes)


def _loss_panel(values: list[Mapping[str, Any]], order: tuple[str, ...], case: CaseSummary, device: str) -> Panel:
    losses = [value["y"] for value in values]
    uneven = min(losses) > 0.0 and max(losses) > _UNEVEN * min(losses)
    size = case.configuration.get("batch_size")
    title = f"{workload_name(case)} on {device}, batch_size {size}"
    x, y = vl.number_axis("x", f"{case.workload.item}s"), vl.number_axis("y", "loss", log=uneven, zero=False)
    shades = vl.colours("line", [value["line"] for value in values], order)
    return vl.panel(title, x, y, (vl.line(faint=len(values) > 400),), values, shades, width=_WIDTH)


# ── a search ───────────────────────────────────────────────────────────────────────────────────────────────


def search_chart(run: RunSummary) -> Chart | None:
    """Return the throughput of each trial of a tune over the time spent so far; None where none has one."""
    trials = sorted((trial for case in run.cases for trial in case.trials), key=lambda trial: trial.order)
    values: list[Mapping[str, Any]] = []
    failed: list[Mapping[str, Any]] = []
    spent_s, best = 0.0, 0.0
    for trial in trials:
        spent_s += trial.duration_s or 0.0
        rate = trial.figures.values.get("throughput")
        if trial.outcome.status != Status.OK or rate is None:
            if trial.outcome.status != Status.SKIPPED:
                failed.append({"at": spent_s, "word": str(trial.outcome.status).replace("_", " ")})
            continue
        probed = trial.purpose == Purpose.PROBE
        values.append({"at": spent_s, "y": rate, "what": _PROBE if probed else _FINAL})
        if probed and rate > best:
            steps = (best, rate) if best else (rate,)  # it rises at once, not on the way
            values += [{"at": spent_s, "best": level, "what": _BEST} for level in steps]
            best = rate
    if len(values) < 2:
        return None
    kept = {at for at, _ in thinned([(value["at"], value["y"]) for value in values if "y" in value], _MOST_TRIALS)}
    shown = tuple(value for value in values if "best" in value or value["at"] in kept)
    item = run.cases[0].workload.item
    shades = {name: shade for name, shade in _SEARCH.items() if any(value["what"] == name for value in shown)}
    best_so_far = vl.line()
    best_so_far["encoding"]["y"] = {"field": "best"}
    marks = (*vl.failures(failed[:_MOST_FAILED]), best_so_far, vl.dots())
    x, y = vl.number_axis("at", "time of trials so far, s"), vl.number_axis("y", f"{item}s/s")
    panel = vl.panel("", x, y, marks, shown, vl.shaded("what", shades), width=560, height=260)
    words = "single trials: no intervals; the best of many probes looks better than it is, so a final round decides"
    says = "Throughput of each trial of the search over the time spent so far, and the final round"
    return Chart("search", says, Picture("What the search found", (panel,), words, columns=1))
