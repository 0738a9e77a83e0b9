"""What an answer says of its own error is what benchmarks/memory_model.py found."""

import json
from pathlib import Path

import pytest

from torchstone.analysis.memory_fit import CASES, MEDIAN_ERROR, USUAL_ERROR

FOUND = json.loads((Path(__file__).parents[4] / "benchmarks" / "data" / "memory_model.json").read_text())


def test_the_stated_errors_hold_of_the_cases_that_were_checked():
    errors = sorted(abs(row["error"]) for row in FOUND["rows"])
    assert len(errors) == CASES >= 30
    assert errors[len(errors) // 2] <= MEDIAN_ERROR <= 0.05
    assert errors[int(0.9 * len(errors))] <= USUAL_ERROR
    assert FOUND["errors"]["cases"] == CASES
    assert FOUND["errors"]["worst"] == pytest.approx(errors[-1])


def test_errors_are_of_what_was_predicted_and_counted():
    for row in FOUND["rows"]:
        assert row["error"] == pytest.approx(row["predicted"]["bytes"] / row["counted"]["bytes"] - 1.0), row["case"]
        assert sum(row["predicted"]["kinds"].values()) == row["predicted"]["bytes"]
