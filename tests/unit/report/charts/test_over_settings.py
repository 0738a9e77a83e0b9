"""The pictures over settings that are no curves over the batch size: phases, Pareto fronts, the roofline, losses."""

import charted
import pytest
from build import a_machine, a_run
from learning import falling, of_losses, rising
from marks import kinds, names_of, places_of, rows, title_of

from torchstone.core.schema.case import Task
from torchstone.core.schema.metric import PHASES
from torchstone.report.charts.batch_sizes import phases_chart
from torchstone.report.charts.courses import losses_chart
from torchstone.report.charts.settings import pareto_chart, roofline_chart

SWEEP = charted.a_training_sweep()


@pytest.fixture(scope="module")
def sweep():
    return charted.summary_of(SWEEP)


def test_phases_are_shares_and_times_of_the_fastest_setting(sweep):
    chart = phases_chart(sweep)
    assert chart is not None
    assert chart.name == "time_breakdown"
    shares, times = chart.picture.panels
    assert kinds(shares) == ["failure", "bars"]
    assert shares.group == times.group == f"train resnet50, {charted.A100.name}, bf16"
    assert places_of(shares) == ("8", "16", "32", "64", "128")
    failure = rows(times, "failure")
    assert failure == [{"batch": "32", "word": "timed out"}]
    pieces = {value["batch"]: value["piece"] for value in times.values}
    assert pieces["8"] == pieces["16"] != pieces["64"] == pieces["128"]
    own = [value for value in times.values if value["batch"] == "8"]
    measured = ("data", "transfer", "forward", "backward", "optimizer", "rest")
    assert tuple(value["phase"] for value in own) == measured == tuple(p for p in PHASES if p in measured)
    assert all(value["low"] < value["ms"] < value["high"] for value in own)


def test_a_share_of_a_step_is_told_as_a_share_and_a_time_in_ms(sweep):
    chart = phases_chart(sweep)
    assert chart is not None
    shares, times = chart.picture.panels[:2]
    assert {name for value in shares.values for name in value} == {"batch", "phase", "place", "share"}
    for size in {value["batch"] for value in shares.values}:
        own = [value["share"] for value in shares.values if value["batch"] == size]
        spent = [value["ms"] for value in times.values if value["batch"] == size]
        assert own == pytest.approx([ms / sum(spent) for ms in spent])


def test_without_phases_nothing_is_drawn():
    assert phases_chart(charted.summary_of(a_run())) is None


def test_a_front_is_what_nothing_beats_with_intervals_both_ways(sweep):
    chart = pareto_chart(sweep)
    assert chart is not None
    (panel,) = chart.picture.panels
    assert set(kinds(panel)) >= {"interval", "reach", "words"}
    on_it = [value for value in panel.values if value["number"]]
    assert [value["number"] for value in on_it] == [str(n) for n in range(1, len(on_it) + 1)]
    for value in on_it:
        beaten = [v for v in panel.values if v["x"] < value["x"] and v["y"] > value["y"]]
        assert beaten == []
    for value in panel.values:
        if not value["number"]:
            assert value["what"] == "beaten in both"
            assert any(v["x"] <= value["x"] and v["y"] >= value["y"] for v in on_it)
    assert panel.subtitle.endswith("; 2 cases without a point")
    assert "1: batch_size 8, precision bf16" in {value["what"] for value in on_it}


def test_inference_has_its_latency_beside_memory_and_two_points_are_no_front():
    run = charted.a_charted_run(charted.cases_of((8, 16, 32), task=Task.INFER), charted.machine_of(charted.A100))
    chart = pareto_chart(charted.summary_of(run))
    assert chart is not None
    assert [title_of(panel, "x") for panel in chart.picture.panels] == ["peak memory, GiB", "latency, ms"]
    two = charted.a_charted_run(charted.cases_of((8, 16)), charted.machine_of(charted.A100))
    assert pareto_chart(charted.summary_of(two)) is None


def test_the_roof_is_the_lower_of_bandwidth_and_peak(sweep):
    chart = roofline_chart(sweep)
    assert chart is not None
    (panel,) = chart.picture.panels
    guide = rows(panel, "guide")
    fp32 = [value for value in guide if value["roof"].endswith("fp32")]
    assert max(value["y"] for value in fp32) == pytest.approx(20.0), "TFLOP/s"
    for value in fp32:
        assert value["y"] == pytest.approx(min(20.0, 1.5 * value["x"]))
    assert len(panel.values) == 8
    assert all(value["low"] < value["y"] < value["high"] for value in panel.values)
    assert names_of(panel) == (f"{charted.A100.name}, fp32", f"{charted.A100.name}, bf16")


def test_without_measured_peaks_there_is_no_roof():
    run = charted.a_charted_run(charted.cases_of((8, 16)), a_machine(devices=(charted.A100,)))
    assert roofline_chart(charted.summary_of(run)) is None


def test_losses_have_a_curve_for_each_setting_that_is_compared():
    rates = {1e-3: -0.02, 1e-4: -0.002}
    run = of_losses([({"learning_rate": rate}, falling(slope=slope)) for rate, slope in rates.items()])
    chart = losses_chart(charted.summary_of(run), run)
    assert chart is not None
    assert chart.name == "loss_convergence"
    (panel,) = chart.picture.panels
    assert names_of(panel) == ("learning_rate 0.001", "learning_rate 0.0001")
    assert [value["x"] for value in panel.values[:3]] == [0.0, 16.0, 32.0], "items, 16 a step"


def test_a_loss_that_leaves_does_not_flatten_the_others():
    run = of_losses([({"learning_rate": 1e-3}, falling(slope=-0.05)), ({"learning_rate": 1.0}, rising())])
    chart = losses_chart(charted.summary_of(run), run)
    assert chart is not None
    assert chart.picture.panels[0].channel("y")["scale"]["type"] == "log"


def test_one_training_is_compared_with_nothing():
    run = of_losses([({"learning_rate": 1e-3}, falling())])
    assert losses_chart(charted.summary_of(run), run) is None
