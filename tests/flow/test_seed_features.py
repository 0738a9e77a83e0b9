"""What the seed documents ask of a run, by their IDs (docs/features.md), from two real runs of a small network."""

import csv
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from build import a_machine, a_run, a_trial
from warm_templates import TORCHSTONE

from torchstone.analysis.rows import case_rows
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.trial import Series
from torchstone.execution import plan

pytestmark = pytest.mark.xdist_group("seed_features")  # one measurement serves all its tests

ROOT = Path(__file__).parents[2]
FILE = """
task: {task}
model: builtin:cnn
data: digits
axes: {{image_size: 32, feed: loader, threads: 1}}
procedure: {{trials: 2, warmup: 2, warmup_budget: 100ms, telemetry: 50ms}}
"""
CARDS = (
    DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"),
    DeviceInfo("rocm", "cuda", "AMD", 0, "Radeon RX 7900 XTX", memory_bytes=24 * 2**30, compute_capability="11.0"),
    DeviceInfo("rocm", "cuda", "AMD", 1, "Radeon RX 7900 XTX", memory_bytes=24 * 2**30, compute_capability="11.0"),
)


def torchstone(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it where no file of the project is (S0-59)."""
    answer = subprocess.run(
        [*TORCHSTONE, *words, "--output-dir", str(folder / "outputs")],
        check=False,
        cwd=folder, capture_output=True, text=True, timeout=240, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("seeds")


def run(folder: Path, task: str, *words: str) -> dict[str, Any]:
    (folder / f"{task}.yaml").write_text(FILE.format(task=task), encoding="utf-8")  # S0-03
    answer = torchstone(folder, "run", "--config", f"{task}.yaml", "--name", f"seed-{task}", *words, "--json")
    return {**json.loads(answer.stdout), "stderr": answer.stderr}


@pytest.fixture(scope="module")
def inferred(folder):
    return run(
        folder, "infer", "--batch-sizes", "3,5", "--device", "cpu", "--iterations", "4", "--debug", "--profiling"
    )


@pytest.fixture(scope="module")
def trained(folder, inferred):
    varied = ("--batch-sizes", "3", "--learning-rates", "1e-4", "--optimizers", "adam", "sgd", "--mixed-precision")
    return run(folder, "train", "--hardware", "cpu", "--grad-accumulation", "2", "--iterations", "4", *varied)


@pytest.fixture(scope="module")
def report(folder, trained):
    return torchstone(folder, "show", "seed-train", "--full").stdout


@pytest.fixture(scope="module")
def table(folder, inferred):
    path = Path(torchstone(folder, "export", "seed-infer", "--format", "csv").stdout.strip())
    with (folder / path).open(encoding="utf-8", newline="") as file:
        return path, list(csv.DictReader(file))


def values(case: dict[str, Any]) -> dict[str, float]:
    return {name: estimate["value"] for name, estimate in case["estimates"].items()}


def statuses(run: dict[str, Any]) -> set[str]:
    return {t["outcome"]["status"] for case in run["cases"] for t in case["trials"]}


def test_s0_09_to_13_flags_reach_the_run(inferred):
    assert [c["configuration"]["batch_size"] for c in inferred["cases"]] == [3, 5]
    assert inferred["cases"][0]["placement"]["device"] == "cpu"
    assert (inferred["procedure"]["warmup"], inferred["procedure"]["iterations"]) == (2, 4)
    assert all(t["facts"]["warmup_steps"] >= 2 for c in inferred["cases"] for t in c["trials"])


def test_s0_25_to_32_inference_metrics(inferred):
    for case in inferred["cases"]:
        got, batch = values(case), case["configuration"]["batch_size"]
        assert got["throughput"] > 0  # S0-25 predictions_per_second
        for trial in case["trials"]:
            one = trial["figures"]["values"]
            assert one["time_per_item_s"] == pytest.approx(1 / one["throughput"])  # S0-26
        assert got["time_to_first_prediction_s"] > 0  # S0-27
        order = ["min", "p50", "p95", "p99", "max"]  # S0-28 to S0-31
        lows_to_highs = [[t["figures"]["values"][f"latency_per_batch_{o}_s"] for o in order] for t in case["trials"]]
        assert all(one == sorted(one) for one in lows_to_highs)
        assert (got["total_items"], got["steps"]) == (2 * 4 * batch, 2 * 4)  # S0-32: two windows of four batches


def test_s0_04_05_21_22_and_s3_13_14_16_training_metrics(trained):
    assert statuses(trained) == {"ok"}
    for case in trained["cases"]:
        for trial in case["trials"]:
            one = trial["figures"]["values"]
            assert one["epoch_time_s"] == pytest.approx(1797 / one["throughput"])
        got = values(case)
        assert got["data_wait_s"] > 0
        assert got["data_wait_share"] > 0
        assert got["step_time_p50"] > 0
        assert got["model_load_time_s"] > 0
        assert got["peak_rss_bytes"] > 1e7
        assert got["total_items"] == 4 * 2 * 3  # steps × accumulation × batch


def test_s0_36_to_38_machine(trained):
    machine = trained["machine"]
    assert set(machine["devices"][0]) >= {
        "vendor", "name", "memory_bytes", "compute_capability", "index", "driver", "runtime",
    }  # fmt: skip
    assert set(machine["host"]) >= {"platform", "processor"}  # S3-28
    assert set(machine["software"]) >= {"python", "torch", "cuda", "rocm"}
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", trained["started_utc"])  # S3-27


def test_s0_51_58_and_s3_48_files_and_store(folder, trained):
    documents = sorted(p.name for p in (folder / "outputs").glob("*.json"))
    assert len(documents) == 2
    assert all(re.fullmatch(r"benchmark_cpu_\d{8}_\d{6}(_\d)?\.json", name) for name in documents)
    stored = json.loads((folder / "outputs" / documents[-1]).read_text(encoding="utf-8"))
    assert stored["head"]["machine"]["software"]["torch"]
    listed = json.loads(torchstone(folder, "runs", "--json").stdout)["runs"]
    assert {row["name"] for row in listed} == {"seed-infer", "seed-train"}
    assert json.loads(torchstone(folder, "show", "seed-train", "--json").stdout)["run_id"] == trained["run_id"]


def test_s1_05_to_08_gauges_become_columns():
    gauges = {
        "device_utilization": 0.9,
        "device_temperature_c": 61.0,
        "device_power_w": 300.0,
        "device_memory_used_bytes": 7e9,
    }
    at_s = tuple(float(i) for i in range(7))
    series = [Series(metric, "nvml", at_s, (value,) * 7) for metric, value in gauges.items()]
    (row,) = case_rows(a_run([a_trial([0.25] * 10, series=series)], machine=a_machine()))
    assert row["device_utilization"] == pytest.approx(0.9)
    assert row["device_temperature_c"] == pytest.approx(61)
    assert row["average_power_w"] == pytest.approx(300)
    assert row["device_memory_used_bytes"] == pytest.approx(7e9)
    assert row["energy_j"] == pytest.approx(750)  # S4-01


def test_s0_02_and_s4_02_auto_takes_the_accelerator_that_is_there():
    here = a_machine(devices=CARDS)
    assert plan.place("auto", Inspected(CARDS, {}, {}), here) == Placement("rocm", 0)
    only = CARDS[:1]
    assert plan.place("auto", Inspected(only, {}, {}), a_machine(devices=only)) == Placement("cpu", 0)
