"""Curves over batch sizes: which device has which colour, what is joined, what stands where nothing was measured."""

from typing import Any

import charted
import pytest
from build import a_sweep
from marks import kinds, layers, names_of, places_of, rows, shades_of

from torchstone.core.charts.vega_lite import PALETTE, Panel
from torchstone.core.schema.case import Task
from torchstone.core.schema.trial import Status
from torchstone.report.charts.batch_sizes import MOST_CURVES, batch_size_charts
from torchstone.report.document import Chart


@pytest.fixture(scope="module")
def sweep() -> dict[str, Chart]:
    return charts_of(charted.a_training_sweep())


@pytest.fixture(scope="module")
def devices() -> dict[str, Chart]:
    return charts_of(charted.three_devices())


def charts_of(run: Any) -> dict[str, Chart]:
    return {chart.name: chart for chart in batch_size_charts(charted.summary_of(run))}


def panels(chart: Chart) -> tuple[Panel, ...]:
    return chart.picture.panels


def words(panel: Panel) -> dict[str, str]:
    return {value["batch"]: value["word"] for value in rows(panel, "failure")}


def test_every_question_that_the_run_has_figures_for(sweep):
    assert list(sweep) == [
        "throughput_vs_batch_size", "latency_vs_batch_size", "memory_usage", "energy_vs_batch_size",
        "scaling_efficiency", "hardware_efficiency",
    ]  # fmt: skip
    titles = [panel.title for panel in panels(sweep["memory_usage"])]
    assert titles == ["device memory, reserved", "device memory, allocated", "host memory, resident"]


def test_panels_of_one_unit_have_one_axis(sweep):
    memory = panels(sweep["memory_usage"])
    ends: dict[str, set[tuple[float, ...]]] = {}
    for panel in memory:
        ends.setdefault(panel.channel("y")["title"], set()).add(tuple(panel.channel("y")["scale"]["domain"]))
        assert (
            max(value["high"] or value["value"] for value in panel.values) <= panel.channel("y")["scale"]["domain"][1]
        )
    assert [len(found) for found in ends.values()] == [1] * len(ends)
    assert "scale" not in panels(sweep["throughput_vs_batch_size"])[0].channel("y"), "alone"


def test_a_setting_is_a_curve_with_its_intervals(sweep):
    (panel,) = panels(sweep["throughput_vs_batch_size"])
    assert names_of(panel) == ("fp32", "bf16")
    assert places_of(panel) == ("8", "16", "32", "64", "128")
    assert set(kinds(panel)) >= {"line", "interval"}
    for value in panel.values:
        assert value["low"] < value["value"] < value["high"]
    assert panel.subtitle == "95 % confidence intervals over 4 trials"
    assert panel.title == "images/s"


def test_what_failed_has_a_word_in_its_place_and_no_line_crosses_it(sweep):
    (panel,) = panels(sweep["throughput_vs_batch_size"])
    assert words(panel) == {"128": "out of memory: fp32", "32": "timed out: bf16"}
    pieces = {(v["curve"], v["batch"]): v["piece"] for v in panel.values}
    assert pieces["bf16", "8"] == pieces["bf16", "16"] != pieces["bf16", "64"] == pieces["bf16", "128"]
    assert len({pieces["fp32", size] for size in ("8", "16", "32", "64")}) == 1
    (line,) = layers(panel, "line")
    assert line["encoding"]["detail"]["field"] == "piece"


def test_of_several_devices_a_curve_is_a_device_and_keeps_its_colour(devices):
    of_panel = {(p.group, p.title): p for p in panels(devices["throughput_vs_batch_size"])}
    assert list(of_panel) == [
        ("infer resnet50", "images/s, fp32"), ("infer resnet50", "images/s, bf16"),
        ("train resnet50", "images/s, fp32"), ("train resnet50", "images/s, bf16"),
    ]  # fmt: skip
    seen: dict[str, set[str]] = {}
    for chart in devices.values():
        for panel in panels(chart):
            for name, shade in zip(names_of(panel), shades_of(panel), strict=True):
                seen.setdefault(name, set()).add(shade)
    assert {name: len(shades) for name, shades in seen.items()} == dict.fromkeys(seen, 1)
    assert set(seen) == {charted.A100.name, charted.MI300.name, charted.XEON.name}
    assert set().union(*seen.values()) == set(PALETTE[:3])


def test_a_batch_size_that_one_device_was_not_tried_at_breaks_only_its_own_curve():
    cases = charted.cases_of((8, 32, 128), (charted.A100,)) + charted.cases_of((8, 128), (charted.MI300,))
    (panel,) = panels(charts_of(charted.a_charted_run(cases, charted.machine_of(charted.A100, charted.MI300)))[
        "throughput_vs_batch_size"])  # fmt: skip
    pieces = {(v["curve"], v["batch"]): v["piece"] for v in panel.values}
    assert pieces[charted.MI300.name, "8"] != pieces[charted.MI300.name, "128"]
    assert len({piece for (curve, _), piece in pieces.items() if curve == charted.A100.name}) == 1
    assert words(panel) == {}, "not tried is not failed"


def test_latency_is_the_median_and_the_95th_percentile_of_inference(devices):
    titles = {panel.title.partition(",")[0] for panel in panels(devices["latency_vs_batch_size"])}
    assert titles == {"median latency of a batch", "median step"}, "60 steps do not support a p95"


def test_more_curves_than_colours_are_the_fastest_and_the_rest_is_counted():
    chart = charts_of(charted.many_settings())["throughput_vs_batch_size"]
    (panel,) = panels(chart)
    assert len(names_of(panel)) == len(set(shades_of(panel))) == MOST_CURVES
    assert "bf16, num_workers 0, pin_memory false" in names_of(panel)
    assert chart.picture.subtitle == "of more than 8 curves a panel the fastest; 4 more are in the tables"


def test_scaling_efficiency_is_the_gain_over_the_items(sweep):
    (panel,) = panels(sweep["scaling_efficiency"])
    own = {v["batch"]: v for v in panel.values if v["curve"] == "fp32"}
    (speed,) = panels(sweep["throughput_vs_batch_size"])
    rates = {v["batch"]: v["value"] for v in speed.values if v["curve"] == "fp32"}
    assert own["8"]["value"] == pytest.approx(100.0)
    assert own["64"]["value"] == pytest.approx(100.0 * rates["64"] / rates["8"] / 8.0, rel=1e-6)
    assert own["64"]["low"] < own["64"]["value"] < own["64"]["high"]


def test_one_trial_has_no_interval_and_says_so():
    (panel,) = panels(charts_of(charted.one_trial())["throughput_vs_batch_size"])
    assert [v["low"] for v in panel.values] == [None, None]
    assert panel.subtitle == "one trial a case: no interval"


def test_trials_that_differ_too_much_are_a_word_and_no_point():
    run = a_sweep([({"batch_size": size}, 0.01) for size in (8, 32)], spread=0.9)
    (panel,) = panels(charts_of(run)["throughput_vs_batch_size"]) or (None,)
    assert panel is not None
    assert panel.values == []
    assert words(panel) == {"8": "±50 % or more", "32": "±50 % or more"}


def test_one_batch_size_is_no_curve():
    assert charts_of(charted.a_charted_run(charted.cases_of((8,)), charted.machine_of(charted.A100))) == {}


def test_all_failed_draws_nothing():
    cases = charted.cases_of((8, 16))
    failed = {case.case_id: Status.CRASHED for case in cases}
    assert charts_of(charted.a_charted_run(cases, charted.machine_of(charted.A100), failed=failed)) == {}


def test_a_learning_rate_that_follows_the_batch_is_no_setting_but_several_at_one_size_are():
    following = [
        case for size in (8, 16) for case in charted.cases_of((size,), task=Task.TRAIN, learning_rate=(1e-3 * size,))
    ]
    one = charted.a_charted_run(following, charted.machine_of(charted.A100))
    (panel,) = panels(charts_of(one)["throughput_vs_batch_size"])
    assert len(panel.values) == 2
    assert len(names_of(panel)) == 1
    several = charted.cases_of((8, 16), learning_rate=(1e-3, 1e-2))
    run = charted.a_charted_run(several, charted.machine_of(charted.A100))
    (panel,) = panels(charts_of(run)["throughput_vs_batch_size"])
    assert names_of(panel) == ("learning_rate 0.001", "learning_rate 0.01")
