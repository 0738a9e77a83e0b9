"""Seed 4 trains: SST-2 to an end and judged, number formats beside each other; the same by scikit-learn and numpy."""

import csv
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from acceptance.feature_rows import row_of
from sentences import SIZES, write_glue

sklearn: Any = pytest.importorskip("sklearn.metrics")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def data(desk):
    write_glue(desk.folder / "SST-2")


def test_s4_05_a_small_transformer_learns_sst_2_and_is_judged_as_scikit_learn_does(desk, data):
    found = desk.claimed("S4-05").document
    metrics = json.loads((desk.folder / "trained" / "training_metrics.json").read_text())
    assert [epoch["items"] for epoch in metrics["epochs"]] == [SIZES["train"]] * len(metrics["epochs"])
    with (desk.folder / "trained" / "test_results" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == SIZES["dev"], "GLUE's test has no labels: the dev set is judged on"
    truth, said = ([row[column] for row in rows] for column in ("label", "prediction"))
    assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(truth, said))
    assert found["f1"] == pytest.approx(sklearn.f1_score(truth, said, average="macro", zero_division=0))
    assert found["accuracy"] > 0.8, "the words of the classes are disjoint"


@pytest.fixture(scope="module")
def mixed(desk, data) -> dict[str, Any]:
    found: dict[str, Any] = desk.type(row_of("S4-06").typed[0]).document
    return found


def test_s4_06_speed_memory_and_loss_of_mixed_precision_are_those_of_the_trials(desk, mixed):
    cases = {case["configuration"]["precision"]: case for case in mixed["cases"]}
    assert set(cases) == {"fp32", "bf16"}
    (group,) = mixed["convergence"]
    (effect,) = group["precisions"]
    assert (effect["precision"], effect["against"]) == ("bf16", "fp32")
    rates = {name: [t["figures"]["values"]["throughput"] for t in case["trials"]] for name, case in cases.items()}
    ratio = np.exp(np.mean(np.log(np.divide(rates["bf16"], rates["fp32"]))))
    assert effect["speed_ratio"]["value"] == pytest.approx(ratio)
    held = {name: case["estimates"]["peak_rss_bytes"]["value"] for name, case in cases.items()}
    assert effect["memory_ratio"] == pytest.approx(held["bf16"] / held["fp32"])
    losses = {name: curve(desk, case["trials"][0]["trial_id"]) for name, case in cases.items()}
    halves = {name: values[len(values) // 2 :] for name, values in losses.items()}
    by_hand = (fmean(halves["bf16"]) - fmean(halves["fp32"])) / fmean(losses["fp32"])
    assert effect["difference"] == pytest.approx(by_hand, abs=2e-3)
    within = -effect["margin"] < effect["low"] and effect["high"] < effect["margin"]
    assert (effect["verdict"] == "equivalent") == within


def curve(desk, trial_id: str) -> list[float]:
    path = Path(desk.type("torchstone export latest --rows samples --format csv").out.strip())
    with (desk.folder / path).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["trial_id"] == trial_id and row["metric"] == "loss"]
    return [float(row["value"]) for row in rows]


def test_s4_06_the_page_has_a_table_of_it_and_the_verdict(desk, mixed):
    shown = desk.claimed("S4-06").out
    rates = [case["estimates"]["throughput"] for case in mixed["cases"]]
    known = all(max(rate["high"] - rate["value"], rate["value"] - rate["low"]) <= 0.5 * rate["value"] for rate in rates)
    assert ("[MIXED PRECISION]" in shown) == known, "what is not known to ±50 % is no table"
    assert "precision bf16 against fp32: " in shown
    assert " times the throughput" in shown
    assert " times the memory" in shown
    assert "within 1 %" in " ".join(shown.split())


def test_s4_05_a_split_without_labels_is_refused_by_name(desk, data):
    desk.claimed("S4-05")
    done = desk.type("torchstone evaluate trained --split test", code=2)
    assert "split test has no labels to evaluate with; --split validation has some" in done.err
