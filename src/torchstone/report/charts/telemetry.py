"""What the gauges read along the time of a trial or a training, with the measured windows, or the epochs, shaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.charts.palette import colours, short_names
from torchstone.core.charts.picture import Coordinate, Line, Panel, Picture, Stretch
from torchstone.core.charts.thinning import thinned
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Series
from torchstone.core.stats.readings import spans_s
from torchstone.report.charts.chosen_cases import chosen_cases, titles_of, trials_of
from torchstone.report.document import Chart

_MOST = 400  # points of a panel
_MOST_CASES = 3
_MOST_LINES = 8  # devices of a panel
_MOST_SPANS = 200
_FEWEST = 3  # readings that are a curve
_LONG_S = 600.0
NAME = "gpu_metrics"


class _Gauge(msgspec.Struct, frozen=True):
    """`factor`: from the unit of its readings to that of the axis. `rises`: a counter, drawn as its rate."""

    metric: str
    title: str
    factor: float = 1.0
    rises: bool = False


_GAUGES = (
    _Gauge("device_utilization", "device in use, %", 100.0),
    _Gauge("device_memory_used_bytes", "device memory in use, GiB", 2.0**-30),
    _Gauge("device_temperature_c", "device temperature, °C"),
    _Gauge("device_power_w", "device power, W"),
    _Gauge("device_clock_hz", "device clock, GHz", 1e-9),
    _Gauge("process_cpu_s", "CPU cores in use", rises=True),
    _Gauge("rss_bytes", "resident memory, GiB", 2.0**-30),
    _Gauge("host_clock_hz", "CPU clock, GHz", 1e-9),
    _Gauge("host_temperature_c", "CPU temperature, °C"),
)


def telemetry_chart(summary: RunSummary, run: Run) -> Chart | None:
    """Return the gauges of one trial of each chosen Case, the measured windows shaded; None without readings."""
    cases, found = chosen_cases(summary)[:_MOST_CASES], list[Panel]()
    titles = titles_of(cases, summary)
    for case in cases:
        for trial in trials_of(case, run)[:1]:
            group = f"{titles[case.case_id]}, its first trial"
            found += gauge_panels(trial.series, spans_s(trial), "since the trial was asked for", group)
    if not found:
        return None
    says = "What the gauges read along the time of one trial; the measured windows are shaded"
    return Chart(
        NAME,
        says,
        Picture("Gauges along time", tuple(found), "single readings; shaded: the measured windows", columns=2),
    )


def gauge_panels(
    series: Sequence[Series], spans: Sequence[tuple[float, float]], since: str, group: str = ""
) -> Iterator[Panel]:
    """Yield a panel a gauge that was read, a line a device. `spans`: (begin, end) in s, shaded."""
    for gauge in _GAUGES:
        own = [one for one in series if one.metric == gauge.metric and one.rank == 0][:_MOST_LINES]
        names = short_names(one.device or one.source for one in own)
        read = {names[one.device or one.source]: points for one in own if len(points := _points(one, gauge)) >= _FEWEST}
        if not read:
            continue
        long = max(points[-1][0] for points in read.values()) > _LONG_S
        each_s, unit = (60.0, "min") if long else (1.0, "s")
        values = tuple(
            {"at": at_s / each_s, "y": y, "line": name}
            for name, points in read.items() for at_s, y in thinned(points, max(4, _MOST // len(read)))
        )  # fmt: skip
        shaded = tuple({"from": begin / each_s, "to": end / each_s} for begin, end in spans[:_MOST_SPANS])
        y = Coordinate("y", gauge.title)
        marks = ((Stretch("from", "to", shaded),) if shaded else ()) + (Line(y),)
        shades = colours("line", read, tuple(read))
        yield Panel("", Coordinate("at", f"{since}, {unit}"), marks, values, shades, group=group, width=380, height=150)


def _points(series: Series, gauge: _Gauge) -> list[tuple[float, float]]:
    """Return (seconds, reading) where both are numbers, in order of time; of a counter its rise a second."""
    readings = sorted(
        (at_s, value) for at_s, value in zip(series.at_s, series.values, strict=False)
        if math.isfinite(at_s) and math.isfinite(value)
    )  # fmt: skip
    if gauge.rises:
        readings = [((a + b) / 2.0, (w - v) / (b - a)) for (a, v), (b, w) in pairwise(readings) if b > a and w >= v]
    return [(at_s, value * gauge.factor) for at_s, value in readings]
