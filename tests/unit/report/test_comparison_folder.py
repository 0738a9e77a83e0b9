"""The folder analysis_results/: a picture of each device and over devices, and a table of averages."""

import csv
import math
import re
from typing import Any

import marks
import msgspec
import pytest
from build import a_case
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.charts.vega_lite import PALETTE
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement
from torchstone.core.schema.training import EpochMetrics, TrainingMetrics
from torchstone.core.schema.trial import Series
from torchstone.report.charts import comparison as charts
from torchstone.report.comparison_folder import write_analysis

AT = tuple(0.01 * i for i in range(300))
POWER = [Series("device_power_w", "nvml", AT, tuple(200.0 for _ in AT))]


def panels(spec):
    assert spec is not None
    return spec.panels


def participant(letter, card, by):
    sizes = [a_case({"batch_size": size}, placement=Placement("cuda")) for size in (8, 32)]
    curve = [2.0 - 0.001 * i for i in range(500)]
    losses: dict[str, Any] = {"steady": {"loss": curve, "peak_reserved_bytes": [2.0**31]}}
    steps = [[0.01 * by] * 3, [0.03 * by] * 3]
    run = a_stored_run(steps[0], sizes[0], (sizes[1], steps[1]), machine=a_gpu(card), series=POWER, **losses)
    return ComparedInput(letter, card, letter, (run,))


@pytest.fixture(scope="module")
def both():
    return [participant("A", "A100", 1.0), participant("B", "RTX 4070", 2.0)]


def test_a_line_a_device_over_batch_sizes(both):
    (panel,) = charts.over_batch_size(charts.QUANTITIES[0], charts.by_batch(both))
    assert [(v["line"], v["x"], round(v["y"])) for v in panel.values] == [
        ("A100", 8, 800), ("A100", 32, 1067), ("RTX 4070", 8, 400), ("RTX 4070", 32, 533),
    ]  # fmt: skip
    (latency,) = charts.over_batch_size(charts.QUANTITIES[1], charts.by_batch(both))
    assert latency.values[0]["y"] == pytest.approx(10.0), "steps, where nothing was asked"
    utilization = next(one for one in charts.QUANTITIES if one.name == "utilization")
    assert charts.over_batch_size(utilization, charts.by_batch(both)) == [], "what nobody measured is not drawn"


def test_s3_74_efficiency_over_hardware():
    """Efficiency is a share of what each card could do, and energy an item; what no card has is not drawn."""
    named = {one.name: one for one in charts.QUANTITIES}
    shares = {"A100": {"mfu_datasheet": 0.31, "mfu_measured": 0.4}, "MI300X": {"mfu_datasheet": 0.22}}
    drawn = [charts.ComparedPoint("train vit", card, card, 8, row) for card, row in shares.items()]
    (panel,) = charts.over_batch_size(named["efficiency"], drawn)
    assert [(v["line"], round(v["y"])) for v in panel.values] == [("A100", 31), ("MI300X", 22)]
    assert charts.over_batch_size(named["energy"], drawn) == []


def test_settings_that_vary_within_a_run_are_lines_of_their_own():
    cases = [a_case({"precision": word}) for word in ("fp32", "bf16")]
    run = a_stored_run([0.01] * 3, cases[0], (cases[1], [0.02] * 3))
    drawn = charts.by_batch([ComparedInput("A", "A100", "A", (run,))])
    assert [point.line for point in drawn] == ["A100, precision fp32", "A100, precision bf16"]


def test_loss_curves_are_thinned_and_labelled_by_device(both):
    small, large = panels(charts.losses(both))
    assert (small.title, large.title) == ("batch size 8", "batch size 32")
    assert len(small.values) == 2 * 200
    assert {value["line"] for value in small.values} == {"A100", "RTX 4070"}
    nothing = a_stored_run([0.01] * 3)
    assert charts.losses([ComparedInput("A", "A", "A", (nothing,))]) is None


def of_two_rates(model="net:cnn"):
    """A run of two learning rates at one batch size, both of which lower the loss by 1 % a step."""
    cases = [a_case({"batch_size": 8, "learning_rate": rate}, model=model) for rate in (1e-3, 1e-2)]
    falling: dict[str, Any] = {"steady": {"loss": [2.0 * 0.99**i for i in range(60)]}}
    return a_stored_run([0.01] * 3, cases[0], (cases[1], [0.02] * 3), **falling)


def test_cases_that_differ_in_the_learning_rate_alone_are_one_point():
    """Not of the convergence, which the learning rate decides."""
    drawn = charts.by_batch([ComparedInput("A", "A100", "A", (of_two_rates(),))])
    named = {one.name: one for one in charts.QUANTITIES}
    (speed,) = charts.over_batch_size(named["throughput"], drawn)
    assert [(v["line"], v["x"], round(v["y"])) for v in speed.values] == [("A100", 8, 600)]
    (fall,) = charts.over_batch_size(named["convergence"], drawn)
    assert [(v["line"], round(v["y"], 3)) for v in fall.values] == [
        ("A100, learning_rate 0.001", -1.005), ("A100, learning_rate 0.01", -1.005),
    ]  # fmt: skip


def test_a_learning_rate_that_follows_the_batch_makes_no_lines():
    cases = [a_case({"batch_size": size, "learning_rate": 1e-4 * size}) for size in (8, 32)]
    falling: dict[str, Any] = {"steady": {"loss": [2.0 * 0.99**i for i in range(60)]}}
    run = a_stored_run([0.01] * 3, cases[0], (cases[1], [0.02] * 3), **falling)
    drawn = charts.by_batch([ComparedInput("A", "A100", "A", (run,))])
    named = {one.name: one for one in charts.QUANTITIES}
    (fall,) = charts.over_batch_size(named["convergence"], drawn)
    assert [(v["line"], v["x"]) for v in fall.values] == [("A100", 8), ("A100", 32)]


def test_loss_curves_of_one_batch_size_are_named_by_what_varies_among_them():
    one, other = of_two_rates(), of_two_rates("net:mlp")
    (panel,) = panels(charts.losses([ComparedInput("A", "A100", "A", (one, of_two_rates()))]))
    assert {v["line"] for v in panel.values} == {"A100, learning_rate 0.001", "A100, learning_rate 0.01"}
    assert len(panel.values) == 2 * 60, "of a case that was measured twice, the newest"
    both = panels(charts.losses([ComparedInput("A", "A100", "A", (one, other))]))
    assert [panel.title for panel in both] == ["net:cnn, batch size 8", "net:mlp, batch size 8"]


GAUGES = (
    Series("device_utilization", "nvml", (0.0, 1.0, 2.0), (0.2, 0.9, 0.7), "cuda:0"),
    Series("process_cpu_s", "psutil", (0.0, 1.0, 3.0), (5.0, 6.5, 8.5)),
    Series("rss_bytes", "psutil", (0.0, 1.0, 2.0), (1 * 2.0**30, 3 * 2.0**30, 2 * 2.0**30)),
)


def trained(one, telemetry=()):
    epoch = EpochMetrics(
        1, 1e-3, 1.5, 0.5, 1.6, 0.4, 10, 160, 1.0, 0.0, 0.1, 0.1, 160.0, (0.1,) * 10, "c", True, 0.0, 1.2
    )
    run_id = one.runs[0].head.run_id
    metrics = TrainingMetrics(
        run_id, "m", "d", "cuda:0", "image", (epoch,), 1.0, 0.02, 160.0, 0.5, 0.4, 1, telemetry=tuple(telemetry)
    )
    return msgspec.structs.replace(one, trainings={run_id: metrics})


def test_trainings_have_a_line_for_what_they_saw_and_one_for_what_they_did_not(both):
    loss, accuracy = panels(charts.epochs([trained(one) for one in both]))
    assert [value["line"] for value in loss.values] == [
        "A100 - Train", "A100 - Val", "RTX 4070 - Train", "RTX 4070 - Val",
    ]  # fmt: skip
    assert [value["y"] for value in accuracy.values] == [0.5, 0.4, 0.5, 0.4]
    assert charts.epochs(both) is None


def test_several_trainings_of_one_side_are_lines_of_their_own(both):
    one = trained(both[0])
    (metrics,) = one.trainings.values()
    twice = msgspec.structs.replace(one, trainings={**one.trainings, "again": metrics})
    loss, _ = panels(charts.epochs([twice]))
    run_id = metrics.run_id
    assert [v["line"] for v in loss.values] == [
        f"A100 {run_id} - Train", f"A100 {run_id} - Val", "A100 again - Train", "A100 again - Val",
    ]  # fmt: skip


def test_s1_66_gauges_of_a_training_are_drawn_over_time(both):
    first, second = trained(both[0], GAUGES), trained(both[1], GAUGES[1:])
    device, host = charts.over_time(charts.training_curves("utilization", [first, second]))
    assert [tuple(v.values()) for v in device.values] == [
        ("A100 - Train", 0.0, 20.0), ("A100 - Train", 1.0, 90.0), ("A100 - Train", 2.0, 70.0),
    ]  # fmt: skip
    assert [tuple(v.values()) for v in host.values] == [
        ("RTX 4070 - Train", 0.5, 1.5), ("RTX 4070 - Train", 2.0, 1.0),
    ], "cores: 1.5 s of CPU in the first second, 2 s in the next two"  # fmt: skip
    (memory,) = charts.over_time(charts.training_curves("memory", [first, second]))
    assert [v["y"] for v in memory.values] == [1.0, 3.0, 2.0] * 2, "GiB"
    assert charts.training_curves("throughput", [first]) == []
    assert charts.training_curves("memory", [trained(both[0])]) == []


def test_long_trainings_are_drawn_in_minutes_and_thinned(both):
    hour = tuple(float(i) for i in range(3600))
    series = Series("device_utilization", "nvml", hour, tuple(i / 3600 for i in hour))
    (curve,) = charts.training_curves("utilization", [trained(both[0], [series])])
    assert len(curve.points) == 100, "two extremes of each of 50 stretches"
    (panel,) = charts.over_time([curve])
    last = panel.values[-1]
    assert last["x"] == pytest.approx(3599.0 / 60), "of each stretch the extremes"
    assert last["y"] == pytest.approx(100 * 3599.0 / 3600)
    assert marks.title_of(panel, "x").endswith("min")


def test_a_training_is_no_dot_over_batch_size(both, tmp_path):
    written = write_analysis([trained(both[0], GAUGES), trained(both[1], GAUGES)], tmp_path)
    text = next(path for path in written if path.name == "comparison_utilization.svg").read_text()
    assert "batch size" not in text
    assert "since the training began" in text
    assert {"A100 - Train", "RTX 4070 - Train"} <= set(re.findall(r">([^<>]+ - Train)<", text))


def test_everything_is_written(both, tmp_path):
    written = write_analysis([trained(both[0]), both[1]], tmp_path)
    names = [path.relative_to(tmp_path / "analysis_results") for path in written]
    assert sorted({str(name.with_suffix("")) for name in names if name.suffix == ".svg"}) == [
        "A_A100/batch_times", "A_A100/training_metrics", "plots/A_A100_performance", "plots/B_RTX_4070_performance",
        "plots/comparative_metrics", "plots/comparison_convergence", "plots/comparison_energy",
        "plots/comparison_epochs", "plots/comparison_latency", "plots/comparison_memory", "plots/comparison_power",
        "plots/comparison_throughput", "plots/comparison_training_loss",
    ]  # fmt: skip
    pictures = {name.with_suffix("") for name in names if name.suffix == ".svg"}
    assert {name.with_suffix("") for name in names if name.suffix == ".png"} == pictures
    assert [str(name) for name in names if name.suffix not in (".svg", ".png")] == ["stats/comparative_statistics.csv"]
    drawn = (tmp_path / "analysis_results/plots/comparison_throughput.svg").read_text()
    assert "RTX 4070" in drawn
    with (tmp_path / "analysis_results/stats/comparative_statistics.csv").open() as file:
        first, second = csv.DictReader(file)
    assert (first["label"], first["val_accuracy"], second["val_accuracy"]) == ("A100", "0.4", "")
    assert float(first["mean_throughput"]) == pytest.approx((800 + 1066.7) / 2, rel=1e-3)
    assert float(second["mean_power_w"]) == pytest.approx(200.0)
    assert float(first["mean_peak_reserved_bytes"]) == 2.0**31


def test_a_price_an_hour_is_the_cost_of_items_with_its_interval(both):
    """1e6 items at 800 items/s take 0.347 h."""
    named = {one.name: one for one in charts.QUANTITIES}
    (panel,) = charts.over_batch_size(named["cost"], charts.by_batch(both, {"A": 2.5}))
    assert [(v["line"], v["x"]) for v in panel.values] == [("A100", 8), ("A100", 32)]
    small = panel.values[0]
    assert small["y"] == pytest.approx(2.5 * 1e6 / 800 / 3600, rel=1e-3)
    assert small["low"] <= small["y"] <= small["high"]
    assert charts.over_batch_size(named["cost"], charts.by_batch(both)) == []


def test_a_line_keeps_its_colour_whichever_panel_it_is_in(both):
    other = charts.by_batch(both)[2:]
    assert {point.label for point in other} == {"RTX 4070"}
    picture = charts.of_device("RTX 4070", charts.by_batch(both))
    assert picture is not None
    for panel in picture.panels:
        assert marks.shades_of(panel) == (PALETTE[1],)


def test_no_line_crosses_a_batch_size_that_failed_or_was_not_tried():
    row: dict[str, Scalar] = {"throughput": 100.0, "throughput_low": 99.0, "throughput_high": 101.0, "ok": 3}
    lost: dict[str, Scalar] = {"throughput": None, "out_of_memory": 3}
    wide: dict[str, Scalar] = {**row, "throughput_low": 10.0, "throughput_high": 900.0}
    rows = {
        ("A", 8): row, ("A", 16): lost, ("A", 32): row, ("B", 8): row, ("B", 32): row, ("C", 8): row, ("C", 16): wide,
    }  # fmt: skip
    drawn = [charts.ComparedPoint("train vit", line, line, batch, of) for (line, batch), of in rows.items()]
    (panel,) = charts.over_batch_size(charts.QUANTITIES[0], drawn)
    pieces = {(v["line"], v["x"]): v["piece"] for v in panel.values}
    assert pieces["A", 8] != pieces["A", 32]
    assert pieces["B", 8] != pieces["B", 32]
    assert ("C", 16) not in pieces
    assert marks.rows(panel, "failure") == [{"x": 16, "word": "out of memory: A; ±50 % or more: C"}]


def test_a_folder_that_cannot_be_written(both, tmp_path):
    (tmp_path / "analysis_results").write_text("a file")
    with pytest.raises(TorchstoneError, match="cannot write"):
        write_analysis(both, tmp_path)


def test_a_loss_that_is_no_number_is_not_drawn():
    run = a_stored_run([0.01] * 3, a_case(), steady={"loss": [2.0, 1.0, math.nan, math.inf]})
    (panel,) = panels(charts.losses([ComparedInput("A", "a", "A", (run,))]))
    assert [value["y"] for value in panel.values] == [2.0, 1.0]
