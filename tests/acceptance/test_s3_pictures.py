"""Seed S3: pictures of a results file in the document's own form, and of the losses of a run."""

import csv
import json
from pathlib import Path

import pytest
from acceptance.svg_curves import is_drawn

PRINTED = Path(__file__).parent / "printed" / "s3_training_benchmark_results.json"
SIZES, RATES = (1, 4, 16), (1e-05, 5e-05)
PLACES = (0, 1, 2)  # of the batch sizes, side by side
SPEED = {"cuda": (39.06, 120.0, 290.0), "cpu": (60.0, 150.0, 160.0)}  # samples a second, at the lower learning rate
HELD = {"cuda": (1345.6, 1800.0, 4100.0), "cpu": (900.0, 2500.0, 3050.0)}  # MiB, the most
FALLS = {
    ("cuda", 1e-05): (-0.0123, -0.02, -0.05), ("cuda", 5e-05): (-0.0234, -0.05, -0.055),
    ("cpu", 1e-05): (-0.03, -0.01, -0.04), ("cpu", 5e-05): (-0.01, -0.06, -0.02),
}  # fmt: skip


def results_on(device):
    """What the document's runner writes for one hardware type: three batch sizes, two learning rates."""
    results = {}
    for place, size in enumerate(SIZES):
        for faster, rate in enumerate(RATES):
            speed = SPEED[device][place] * (1.0 + 0.1 * faster)
            mean_s, loss, held = size / speed, 1.789, HELD[device][place]
            results[f"batch_{size}_seq_32_lr_{rate}_opt_adam_accum_1"] = {
                "status": "completed", "batch_size": size, "gradient_accumulation_steps": 1,
                "effective_batch_size": size, "mixed_precision": False, "distributed": False,
                "training_time": {"min": 0.9 * mean_s, "max": 1.2 * mean_s, "mean": mean_s, "std": 0.1 * mean_s},
                "loss": {"min": 0.7 * loss, "max": 1.3 * loss, "mean": loss, "std": 0.1},
                "memory_usage": {"mean": 0.9 * held, "max": held}, "throughput": speed,
                "loss_convergence_rate": FALLS[device, rate][place],
            }  # fmt: skip
    return {"status": "completed", "model_load_time": 2.34, "training_results": results}


@pytest.fixture(scope="module")
def plots(desk):
    """The folder of the pictures of the printed file, with results on two hardware types."""
    document = json.loads(PRINTED.read_text(encoding="utf-8"))
    document["benchmarks"]["embedding"]["bert-base-uncased"] = {kind: results_on(kind) for kind in SPEED}
    desk.write("benchmark_results/training_benchmark_results_20250302_123456.json", json.dumps(document))
    desk.claimed("S3-70")
    return desk.folder / "visualizations" / "analysis_results" / "plots"


def picture(plots, quantity, title):
    """The SVG of one quantity, which names its axis, the model and both devices."""
    svg = (plots / f"comparison_{quantity}.svg").read_text(encoding="utf-8")
    for words in (title, "train hf:bert-base-uncased", "batch size", "device cuda", "device cpu"):
        assert f">{words}" in svg, words
    return svg


def test_s3_70_training_time_over_hardware(plots):
    svg = picture(plots, "latency", "latency or step, ms")
    for device, speeds in SPEED.items():
        assert is_drawn(svg, PLACES, [size / speed for size, speed in zip(SIZES, speeds, strict=True)]), device
    assert not is_drawn(svg, PLACES, SPEED["cuda"]), "not just any line"


def test_s3_71_throughput_over_batch_sizes(plots):
    svg = picture(plots, "throughput", "items/s")
    for device, speeds in SPEED.items():
        assert is_drawn(svg, PLACES, speeds), f"{device}: a point a batch size, the mean over learning rates"
    assert not is_drawn(svg, PLACES, HELD["cpu"])


def test_s3_72_memory_over_batch_sizes(plots):
    svg = picture(plots, "memory", "peak memory, GiB")
    for device, held in HELD.items():
        assert is_drawn(svg, PLACES, held), device
    assert not is_drawn(svg, PLACES, SPEED["cpu"])


def test_s3_73_rates_of_convergence_by_device_and_learning_rate(plots):
    svg = picture(plots, "convergence", "slope of ln(loss) a step, %")
    for (device, rate), falls in FALLS.items():
        assert f">device {device}, learning_rate {rate}<" in svg
        assert is_drawn(svg, PLACES, falls), (device, rate)
    assert not is_drawn(svg, PLACES, SPEED["cuda"])


def test_s3_73_losses_of_a_run_by_learning_rate(desk):
    run = desk.type(
        "torchstone run --task train --model builtin:cnn --data digits --axis image_size=8 --axis threads=1 "
        "--batch-sizes 4 --learning-rates 1e-3 1e-2 --optimizers adam sgd --trials 1 --iterations 12 --warmup 2 "
        "--warmup-budget 1ms --no-phases --name rates --output-dir own --json"
    ).document
    losses: dict[str, list[float]] = {}
    path = desk.folder / desk.type("torchstone export rates --rows samples --output-dir own").out.strip()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "loss":
                losses.setdefault(row["case_id"], []).append(float(row["value"]))
    desk.type("torchstone compare rates --over learning_rate --figures own --output-dir own")
    svg = (desk.folder / "own/analysis_results/plots/comparison_training_loss.svg").read_text(encoding="utf-8")
    assert len(losses) == len(run["cases"]) == 4
    for case in run["cases"]:
        point, own = case["configuration"], losses[case["case_id"]]
        assert f">learning_rate {point['learning_rate']}, optimizer {point['optimizer']}<" in svg
        assert is_drawn(svg, range(len(own)), own), point
