"""Gauges along time: what was read, in units of people, with the measured windows shaded."""

import math
from typing import Any

import charted
import pytest
from build import a_run, a_trial
from marks import names_of, rows, title_of

from torchstone.core.schema.trial import Series
from torchstone.report.charts.courses import gauge_panels, telemetry_chart
from torchstone.report.document import Chart

AT = (0.0, 1.0, 2.0, 3.0, 4.0)


def chart_of(run: Any) -> Chart | None:
    return telemetry_chart(charted.summary_of(run), run)


def test_each_gauge_has_a_panel_with_the_window_of_its_trial():
    run = charted.a_charted_run(charted.cases_of((8,)), charted.machine_of(charted.A100))
    chart = chart_of(run)
    assert chart is not None
    assert chart.name == "gpu_metrics"
    titles = [title_of(panel, "y") for panel in chart.picture.panels]
    assert titles == [
        "device in use, %", "device memory in use, GiB", "device temperature, °C", "device power, W",
        "device clock, GHz", "CPU cores in use", "resident memory, GiB",
    ]  # fmt: skip
    shaded = rows(chart.picture.panels[0], "stretch")
    window = run.trials[0].values("window_span_s")
    assert shaded == [{"from": window[0], "to": window[1]}]


def test_no_readings_no_picture():
    assert chart_of(a_run()) is None


def test_a_counter_is_drawn_as_its_rate_and_what_is_no_number_not_at_all():
    counter = Series("process_cpu_s", "psutil", AT, (0.0, 2.0, 4.0, math.nan, 8.0))
    (panel,) = gauge_panels([counter], [], "since")
    assert [(value["at"], value["y"]) for value in panel.values] == [(0.5, 2.0), (1.5, 2.0), (3.0, 2.0)]


def test_a_counter_that_was_reset_has_no_rate_there():
    counter = Series("process_cpu_s", "psutil", AT, (5.0, 6.0, 0.0, 1.0, 2.0))
    (panel,) = gauge_panels([counter], [], "since")
    assert [value["at"] for value in panel.values] == [0.5, 2.5, 3.5]


def test_long_times_are_in_minutes_and_so_are_the_windows():
    read = Series("device_power_w", "nvml", tuple(60.0 * moment for moment in range(20)), (200.0,) * 20)
    (panel,) = gauge_panels([read], [(60.0, 600.0), (660.0, 900.0)], "since it began")
    assert title_of(panel, "x") == "since it began, min"
    shaded = rows(panel, "stretch")
    assert [tuple(value.values()) for value in shaded] == [(1.0, 10.0), (11.0, 15.0)]


def test_a_line_a_device_and_many_readings_keep_their_extremes():
    at_s = tuple(0.01 * moment for moment in range(30_000))
    spike = [100.0] * 30_000
    spike[17_000] = 700.0
    both = [Series("device_power_w", "nvml", at_s, tuple(spike), f"cuda:{n}") for n in range(2)]
    (panel,) = gauge_panels(both, [], "since")
    assert names_of(panel) == ("cuda:0", "cuda:1")
    assert len(panel.values) <= 400
    assert max(value["y"] for value in panel.values) == 700.0


@pytest.mark.parametrize("count", [1, 2])
def test_two_readings_are_no_curve(count):
    assert list(gauge_panels([Series("rss_bytes", "psutil", AT[:count], (1e9,) * count)], [], "since")) == []


def test_the_trial_that_is_shown_is_a_sound_one():
    series = [Series("device_power_w", "nvml", AT, (200.0,) * 5)]
    assert chart_of(a_run([a_trial(series=series, measurements=())])) is not None
