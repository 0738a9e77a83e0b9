"""Seed 1, machines compared: plots of each, plots and statistics over all, trainings by GPU model."""

import csv
from statistics import fmean

import msgspec
import numpy as np
import pytest
from acceptance.feature_rows import row_of
from acceptance.svg_curves import curves_in, is_drawn
from build import a_case
from comparable import a_gpu, a_stored_run, write_record

from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.codec import encode
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import EpochMetrics, Fit, TrainingMetrics
from torchstone.core.schema.trial import Series

CARDS = {"huo": ("A100", 1.0), "jin": ("RTX 4070", 1.6), "tian": ("RTX 2080", 2.5)}
WHEN = {
    "outputs": ("20250407_141715", "20250407_153906", "20250407_141558"),
    "outputs_finetune": ("20250408_110200", "20250408_113959", "20250408_111630"),
}
AT = tuple(0.5 * i for i in range(24))
SIZES = (1, 8, 32)


def folders(kind):
    return {name: f"{kind}_{name}_{moment}" for name, moment in zip(CARDS, WHEN[kind], strict=True)}


def gauges(by):
    """Readings that no two machines share: utilization in waves, memory that rises, 60 °C, 200 W."""
    waves = tuple(0.5 + 0.4 * float(np.sin(i / by)) for i in range(len(AT)))
    rises = tuple(2.0**30 * (1.0 + i * by / 10) for i in range(len(AT)))
    flat = {"device_temperature_c": 60.0 * by, "device_power_w": 200.0 / by}
    return [
        Series("device_utilization", "nvml", AT, waves, "cuda:0"),
        Series("device_memory_used_bytes", "nvml", AT, rises, "cuda:0"),
        *(Series(metric, "nvml", AT, (value,) * len(AT), "cuda:0") for metric, value in flat.items()),
    ]


def an_epoch(number, by):
    loss = 1.4 / number + 0.1 * by
    return EpochMetrics(
        number, 1e-3, loss, 0.5 + 0.1 * number, loss + 0.2, 0.4 + 0.1 * number, 10, 160, by, 0.0, 0.1, 0.1, 160 / by,
        (by / 10,) * 10, f"checkpoint_epoch_{number}.safetensors", True, 5.0 * (number - 1), 5.0 * number,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _three_machines(desk):
    for name, folder in folders("outputs").items():
        card, by = CARDS[name]
        cases = [a_case({"batch_size": size}, task=Task.INFER, placement=Placement("cuda")) for size in SIZES]
        steps = [[0.004 * size * by * trial for trial in (0.99, 1.0, 1.01)] for size in SIZES]
        run = a_stored_run(
            steps[0], cases[0], *zip(cases[1:], steps[1:], strict=True), machine=a_gpu(card, host=name),
            series=gauges(by), window="latency", steps=20, name="run_inference",
        )  # fmt: skip
        write_record(run, desk.folder / folder)
    for name, folder in folders("outputs_finetune").items():
        card, by = CARDS[name]
        fit = Procedure(trials=1, epochs=3, fit=Fit())
        case = a_case({"batch_size": 32}, data="mri:scans", placement=Placement("cuda"))
        run = a_stored_run([0.1 * by], case, machine=a_gpu(card, host=name), head={"procedure": fit})
        write_record(run, desk.folder / folder)
        epochs = tuple(an_epoch(number, by) for number in (1, 2, 3))
        metrics = TrainingMetrics(
            run.head.run_id, "hf:vit", "mri:scans", "cuda:0", "image", epochs, by, 0.25, 160 / by, 0.8, 0.7, 3, "ok",
            telemetry=tuple(gauges(by)),
        )  # fmt: skip
        (desk.folder / folder / "training_metrics.json").write_bytes(encode(metrics))


def plots(desk, where="."):
    return desk.folder / where / "analysis_results" / "plots"


def statistics(desk, where="."):
    path = desk.folder / where / "analysis_results" / "stats" / "comparative_statistics.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["label"]: row for row in csv.DictReader(file)}


def test_s1_26_to_28_plots_of_each_gpu_and_over_machines(desk):
    desk.claimed("S1-26")
    there = {path.name for path in plots(desk).iterdir()}
    assert {"A_A100_performance.svg", "B_RTX_4070_performance.svg", "C_RTX_2080_performance.svg"} <= there
    assert {f"comparison_{what}.svg" for what in ("throughput", "latency", "utilization", "power")} <= there
    throughput = (plots(desk) / "comparison_throughput.svg").read_text(encoding="utf-8")
    assert all(f">{card}</text>" in throughput for card, _ in CARDS.values())
    alone = (plots(desk) / "B_RTX_4070_performance.svg").read_text(encoding="utf-8")
    assert "A100" not in alone
    assert is_drawn(alone, range(len(SIZES)), SIZES), "its latency: a batch takes as long as it has images"


def test_s1_27_the_lines_are_the_measured_rates(desk):
    desk.claimed("S1-26")
    throughput = (plots(desk) / "comparison_throughput.svg").read_text(encoding="utf-8")
    rates = {card: 1 / (0.004 * by) for card, by in CARDS.values()}
    heights = sorted(fmean(line[:, 1]) for line in curves_in(throughput) if len(line) == len(SIZES))
    assert len(heights) == 3, "a line a machine"
    zero = np.polyfit(sorted(rates.values(), reverse=True), heights, 1)
    assert np.allclose(np.polyval(zero, sorted(rates.values(), reverse=True)), heights, atol=0.6)


def test_s1_29_and_30_statistics_of_three_machines(desk):
    desk.claimed("S1-26")
    rows = statistics(desk)
    assert list(rows) == ["A100", "RTX 4070", "RTX 2080"]
    for name, (card, by) in CARDS.items():
        row = rows[card]
        assert (row["host"], row["cases"], row["trials"]) == (name, "3", "9")
        assert float(row["mean_throughput"]) == pytest.approx(1 / (0.004 * by), rel=1e-3)
        assert float(row["mean_latency_per_batch_p50_s"]) == pytest.approx(
            fmean(0.004 * size * by for size in SIZES), rel=1e-3
        )
        assert float(row["mean_power_w"]) == pytest.approx(200 / by, rel=1e-3)
        assert float(row["mean_device_temperature_c"]) == pytest.approx(60 * by, rel=1e-3)


def test_s1_66_loss_and_accuracy_over_epochs_by_gpu_model(desk):
    desk.claimed("S1-66")
    svg = (plots(desk, "trainings") / "comparison_epochs.svg").read_text(encoding="utf-8")
    for _, by in CARDS.values():
        epochs = [an_epoch(number, by) for number in (1, 2, 3)]
        for what in ("train_loss", "val_loss", "train_accuracy", "val_accuracy"):
            assert is_drawn(svg, [1, 2, 3], [getattr(epoch, what) for epoch in epochs]), what


def test_s1_66_utilization_and_memory_over_time(desk):
    desk.claimed("S1-66")
    for picture, metric in (
        ("comparison_utilization.svg", "device_utilization"), ("comparison_memory.svg", "device_memory_used_bytes"),
    ):  # fmt: skip
        svg = (plots(desk, "trainings") / picture).read_text(encoding="utf-8")
        assert len([line for line in curves_in(svg) if len(line) == len(AT)]) == 3, "a curve a machine"
        assert "since the training began, s" in svg
        assert "batch size" not in svg
        for _, by in CARDS.values():
            (series,) = (one for one in gauges(by) if one.metric == metric)
            assert is_drawn(svg, AT, series.values)
        assert not is_drawn(svg, AT, [0.5 + 0.4 * np.cos(t) for t in AT]), "not just any curve"


def test_s1_68_the_legend_names_gpu_and_part(desk):
    desk.claimed("S1-66")
    epochs = (plots(desk, "trainings") / "comparison_epochs.svg").read_text(encoding="utf-8")
    for label in ("A100 - Train", "A100 - Val", "RTX 4070 - Train", "RTX 4070 - Val", "RTX 2080 - Val"):
        assert f">{label}</text>" in epochs
    utilization = (plots(desk, "trainings") / "comparison_utilization.svg").read_text(encoding="utf-8")
    assert all(f">{card} - Train</text>" in utilization for card, _ in CARDS.values())
    whole = (plots(desk, "trainings") / "comparative_metrics.svg").read_text(encoding="utf-8")
    assert all(f">{card} - {part}</text>" in whole for card, _ in CARDS.values() for part in ("Train", "Val"))


def test_s1_63_and_65_trainings_over_all_and_a_folder_for_each_card(desk):
    desk.claimed("S1-63")
    top = plots(desk, "trainings").parent
    whole = (plots(desk, "trainings") / "comparative_metrics.svg").read_text(encoding="utf-8")
    for folder, (card, by) in zip(("A_A100", "B_RTX_4070", "C_RTX_2080"), CARDS.values(), strict=True):
        epochs = [an_epoch(number, by) for number in (1, 2, 3)]
        assert is_drawn(whole, [1, 2, 3], [epoch.train_loss for epoch in epochs]), card
        own = (top / folder / "training_metrics.svg").read_text(encoding="utf-8")
        assert is_drawn(own, [1, 2, 3], [epoch.val_loss for epoch in epochs]), card
        assert {path.name for path in (top / folder).iterdir()} >= {"batch_times.svg", "training_metrics.png"}
    desk.claimed("S1-26")
    assert [path.name for path in sorted(plots(desk).parent.iterdir())] == ["plots", "stats"], "of runs"


def test_s1_66_by_the_files_that_the_seed_names(desk):
    desk.claimed("S1-66")
    named = [f"{folder}/training_metrics.json" for folder in folders("outputs_finetune").values()]
    assert set(named) <= set(row_of("S1-66").printed[0].split())
    desk.type(f"torchstone compare {' '.join(named)} --figures by-file")
    assert statistics(desk, "by-file") == statistics(desk, "trainings")
    there = {path.name: path.read_bytes() for path in plots(desk, "trainings").iterdir()}
    assert {path.name: path.read_bytes() for path in plots(desk, "by-file").iterdir()} == there


def test_s1_67_averages_of_each_training(desk):
    desk.claimed("S1-66")
    rows = statistics(desk, "trainings")
    for card, by in CARDS.values():
        row, epochs = rows[card], [an_epoch(number, by) for number in (1, 2, 3)]
        wanted = {
            "mean_train_loss": fmean(one.train_loss for one in epochs),
            "mean_val_loss": fmean(one.val_loss for one in epochs if one.val_loss is not None),
            "mean_train_accuracy": 0.7, "mean_val_accuracy": 0.6, "train_accuracy": 0.8, "val_accuracy": 0.7,
            "mean_device_utilization": fmean(gauges(by)[0].values),
            "mean_device_memory_used_bytes": fmean(gauges(by)[1].values),
            "mean_device_temperature_c": 60 * by, "mean_power_w": 200 / by,
        }  # fmt: skip
        assert {name: float(row[name]) for name in wanted} == pytest.approx(wanted, rel=1e-6)


def test_the_builders_tell_the_machines_apart():
    first, second = (msgspec.to_builtins(gauges(by)[0]) for by in (1.0, 1.6))
    assert first["values"] != second["values"]
