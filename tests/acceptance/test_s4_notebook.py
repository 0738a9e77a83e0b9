"""Seed 4's notebook: its code as printed, a few names translated; what it leaves is computed again by other means."""

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("vl_convert")
pandas: Any = pytest.importorskip("pandas")

PRINTED = Path(__file__).parent / "printed"
# What is called otherwise here, in the order in which it is replaced.
NAMES = {
    "from model_profiler import": "from torchstone import",
    "from perf_diagnostics import PerformanceDiagnostics": "from torchstone import Diagnostics",
    "PerformanceDiagnostics(": "Diagnostics(",
    "run_diagnostics(": "run(",
    "num_iterations=": "iterations=",
    "get_results()": "frame()",
    "generate_bottleneck_report()": "report()",
    "\nanalyze_gpu_utilization()": "\nprint(analyze_gpu_utilization())",  # a notebook shows a cell's last value itself
}
AT_HAND = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(512, 16), torch.randint(0, 4, (512,)))
dataloader = DataLoader(data, batch_size=32, shuffle=True)
"""
KEPT = """
results_df.to_csv("frame.csv", index=False)
profiler.plot_throughput_vs_batch_size("throughput.svg")
profiler.plot_time_breakdown("time.svg")
profiler.plot_memory_usage("memory.svg")
"""
DISTILBERT = """
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification

torch.set_num_threads(1)
config = DistilBertConfig(vocab_size=100, dim=32, n_layers=1, n_heads=2, hidden_dim=64)
model = DistilBertForSequenceClassification(config)


class Sentences(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        words = torch.full((8,), 1 + index % 99)
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": index % 2}


train_loader = DataLoader(Sentences(), batch_size=32, shuffle=True)
"""
SIZES = [8, 16, 32, 64, 128]
PHASES = ("data", "transfer", "forward", "backward", "optimizer", "rest")


class Left(NamedTuple):
    """What the notebook left: what it printed, its rows, the raw values of its record, where its files are."""

    printed: str
    rows: dict[int, dict[str, str]]
    every: list[dict[str, str]]
    raw: dict[int, list[dict[str, str]]]
    folder: Path
    desk: Path


def translated(name: str) -> str:
    text = (PRINTED / name).read_text(encoding="utf-8")
    for theirs, ours in NAMES.items():
        text = text.replace(theirs, ours)
    return text


@pytest.fixture(scope="module")
def left(desk) -> Left:
    desk.write("diagnose_training.py", AT_HAND + translated("s4_advanced.py.txt") + KEPT)
    printed = desk.claimed("S4-47").out
    run = desk.type("torchstone show latest --json").document
    desk.type("torchstone export latest --rows samples --to samples.csv")
    sizes = {case["case_id"]: case["configuration"]["batch_size"] for case in run["cases"]
             if case["placement"]["device"] == "cpu"}  # fmt: skip
    raw: dict[int, list[dict[str, str]]] = {size: [] for size in sizes.values()}
    for row in rows_of(desk.folder / "samples.csv"):
        if row["case_id"] in sizes:
            raw[sizes[row["case_id"]]].append(row)
    every = rows_of(desk.folder / "frame.csv")
    own = {int(float(row["batch_size"])): row for row in every if row["device"] == "cpu"}
    return Left(printed, own, every, raw, desk.folder / "outputs" / "diagnostics" / run["run_id"], desk.folder)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def values(rows: list[dict[str, str]], metric: str, **where: str) -> list[float]:
    which = {"metric": metric, "stage": "steady", **where}
    return [float(row["value"]) for row in rows if all(row[key] == value for key, value in which.items())]


def marks(path: Path) -> list[dict[str, str]]:
    """The marks of a chart, each as what its label says: title of an axis → value."""
    labels = (element.get("aria-label") or "" for element in ET.parse(path).getroot().iter())
    told = [dict(part.split(": ", 1) for part in label.split("; ") if ": " in part) for label in labels]
    return [one for one in told if "batch size" in one and len(one) > 1]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def test_s4_47_and_48_every_batch_size_and_device_that_was_asked_for_is_a_row(left):
    assert list(left.rows) == SIZES
    assert {row["status"] for row in left.rows.values()} == {"ok"}
    others = [row for row in left.every if row["device"] != "cpu"]
    assert others, "cuda was asked for, too"
    assert all(row["status"] == "ok" or "not found" in row["message"] for row in others)
    for size in SIZES:
        steps = values(left.raw[size], "step_time_s")
        assert len(steps) == 50, "num_iterations"
        assert set(values(left.raw[size], "items")) == {size}


def test_s4_49_the_frame_holds_what_was_measured(left):
    for size, row in left.rows.items():
        raw = left.raw[size]
        rate = sum(values(raw, "items")) / sum(values(raw, "window_time_s"))
        assert float(row["throughput"]) == pytest.approx(rate)
        assert float(row["step_s"]) == pytest.approx(np.mean(values(raw, "step_time_s")))
        for phase in PHASES:
            assert float(row[f"{phase}_s"]) == pytest.approx(np.mean(values(raw, "phase_time_s", phase=phase)))
        read = [float(one["value"]) for one in raw if one["metric"] == "rss_bytes"]
        assert float(row["peak_rss_bytes"]) == max([*values(raw, "peak_rss_bytes"), *read])
        assert row["peak_reserved_bytes"] == "", "a CPU has no allocator that tells; missing is empty, never 0"
    frame = pandas.read_csv(left.desk / "frame.csv")
    assert list(frame["batch_size"].dropna().astype(int))[:5] == SIZES
    assert "batch_size" in left.printed, "print(results_df)"


@pytest.mark.parametrize(
    "name", ["throughput_vs_batch_size.png", "time_breakdown.png", "memory_usage.png"]
)  # fmt: skip
def test_s4_50_to_56_each_picture_has_the_name_that_is_promised_and_something_on_it(left, name):
    with Image.open(left.folder / name) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 500
        colours = picture.convert("RGB").getcolors(2**24)
    assert colours is not None
    assert len(colours) > 20


def test_s4_50_the_picture_of_throughput_draws_the_numbers_of_the_frame(left):
    points = [one for one in marks(left.desk / "throughput.svg") if "samples/s" in one]
    drawn = {int(one["batch size"]): number(one["samples/s"]) for one in points}
    told = {size: float(row["throughput"]) for size, row in left.rows.items()}
    if all(row["status"] != "ok" for row in left.every if row["device"] != "cpu"):
        assert drawn == pytest.approx(told, rel=1e-3)


def test_s4_51_the_picture_of_time_draws_each_phase(left):
    bars = [one for one in marks(left.desk / "time.svg") if "phase" in one and "ms a step" in one]
    assert {one["phase"] for one in bars} == set(PHASES)
    shown = {(int(one["batch size"]), one["phase"]): number(one["ms a step"]) for one in bars}
    for size, row in left.rows.items():
        for phase in ("forward", "backward", "optimizer"):
            assert shown[size, phase] == pytest.approx(1e3 * float(row[f"{phase}_s"]), rel=1e-3)


def test_s4_52_the_picture_of_memory_draws_the_peaks(left):
    points = [one for one in marks(left.desk / "memory.svg") if one.get("kind") == "host (resident)"]
    shown = {int(one["batch size"]): number(one["peak, MiB"]) for one in points if "peak, MiB" in one}
    assert shown == pytest.approx({n: float(row["peak_rss_bytes"]) / 2**20 for n, row in left.rows.items()}, rel=1e-3)


def test_s4_53_and_57_the_report_is_printed_with_the_bottleneck_and_lies_beside_the_pictures(left):
    text = (left.folder / "performance_report.md").read_text(encoding="utf-8")
    assert text.strip() in left.printed
    assert text.startswith("# Diagnosis of Sequential\n")
    assert re.search(r"^- kind: [\w/]+ bottleneck, \d+ % of the step", text, re.MULTILINE)
    assert "## On cpu (" in text
    assert re.search(r"Which is fastest is not known.*\. All 5 cases are SUSPECT\.", text), "of one trial each"
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len(cells[0]) <= 7, "the important columns; all of them are folded below"
    start = next(n for n, row in enumerate(cells) if "forward" in row)
    cells = cells[start:]
    header = [cell.strip("| ") for cell in cells[0]]
    assert header[:2] == ["batch size", "ended"]
    assert {"samples/s", "step", "data", "forward", "backward", "optimizer", "host memory"} <= set(header)
    assert [int(row[0].strip("| ")) for row in cells[1:6]] == SIZES
    rates = [number(row[header.index("samples/s")]) for row in cells[1:6]]
    assert rates == pytest.approx([float(row["throughput"]) for row in left.rows.values()], rel=1e-3)
    assert all(f"]({name})" in text for name in ("throughput_vs_batch_size.png", "time_breakdown.png"))
    if any(row["status"] == "skipped" for row in left.every):
        assert "## Skipped\n\n- cuda: " in text


@pytest.mark.long
def test_s4_45_and_46_the_one_call_of_a_notebook_and_what_the_gpu_does(desk):
    desk.write("kaggle_notebook.py", DISTILBERT + translated("s4_kaggle.py.txt") + "print(repr(diagnostics))\n")
    printed = desk.claimed("S4-45").out
    folder = Path(desk.folder, printed.strip().rpartition("pictures and report: ")[2])
    assert {path.name for path in folder.iterdir()} == {
        "throughput_vs_batch_size.png", "time_breakdown.png", "memory_usage.png", "performance_report.md",
    }  # fmt: skip
    run = json.loads(desk.type(f"torchstone show {folder.name} --json").out)
    own = [case for case in run["cases"] if case["placement"]["device"] == "cpu"]
    assert [case["configuration"]["batch_size"] for case in own] == [8, 16, 32, 64, 128, 256]
    assert all(case["trials"][0]["outcome"]["status"] == "ok" for case in own)
    assert all(case["estimates"]["loss_last"]["value"] < 1.0 for case in own), "two classes: ln 2, and falling"
    devices = desk.type("torchstone machine --json").document["machine"]["devices"]
    cards = [device for device in devices if device["kind"] != "cpu"]
    if cards:
        assert all(f"{card['kind']}:{card['index']} {card['name']}, over " in printed for card in cards)
    else:
        assert "no accelerator found\n  cuda: " in printed
