"""Real step times of a shared machine, of processes beside which nothing else ran, are no reason for doubt."""

import json
import os
from pathlib import Path

import pytest
from build import a_case, a_run, a_trial

from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.plugins import registry
from torchstone.plugins.checking import look

REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data") / "noise"
ALONE = 0.05  # cores that the rest of the machine used


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_processes_that_were_alone_are_believed():
    recorded = json.loads((REAL / "processes.json").read_text())["recs"]
    flagged, runs = [], 0
    for job in ("cnn", "infer_b1"):
        alone = [r for r in recorded if r["job"] == job and r["other_cpu_frac"] < ALONE and r["inject_us"] == 0.0]
        case = a_case({"batch_size": 16 if job == "cnn" else 1})
        for first in range(0, len(alone) - 2, 3):
            trials = [
                a_trial(
                    [ns / 1e9 for ns in rec["ns"]], items=16.0 if job == "cnn" else 1.0, trial_id=f"t{n}",
                    case_id=case.case_id, number=n, order=n, begin_s=rec["setup_s"] + sum(rec["warm_ns"]) / 1e9,
                    more=[Measurement("step_time_s", Stage.WARMUP, tuple(ns / 1e9 for ns in rec["warm_ns"]))],
                )
                for n, rec in enumerate(alone[first : first + 3])
            ]  # fmt: skip
            runs += 1
            flagged += [f for f in look(a_run(trials, cases=[case])) if f.severity != Severity.INFO]
    assert runs >= 15
    assert not flagged


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is not here; set TORCHSTONE_TEST_DATA")
def test_no_process_that_was_alone_has_steps_of_two_kinds():
    recorded = json.loads((REAL / "processes.json").read_text())["recs"]
    alone = [rec for rec in recorded if rec["other_cpu_frac"] < ALONE]
    check = registry.load("checks", "several_modes")
    runs = [a_run([a_trial([ns / 1e9 for ns in rec["ns"]])]) for rec in alone]
    assert len(runs) > 60
    assert not [found for run in runs for found in check.look(run)]
