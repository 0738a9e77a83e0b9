"""`machine peaks` and `machine check` on this machine, briefly, and what a run says of itself once peaks are known."""

import json
import os
import tempfile

import msgspec
import pytest

from torchstone.cli import machine_command as asking
from torchstone.cli import main
from torchstone.core.schema.comparison import Comparison, Judgement, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.report.documents.machine import machine_check_document
from torchstone.report.renderers.terminal import terminal
from torchstone.workflows.ab.experiment import ExperimentResult
from torchstone.workflows.machine_check import examination


def said_as_json(capfd, *words):
    capfd.readouterr()
    code = main(list(words))
    return code, json.loads(capfd.readouterr().out)


@pytest.fixture(autouse=True)
def locks_of_its_own(tmp_path, monkeypatch):
    """Other tests measure on this CPU at the same time: `machine check` would find it busy, and say so."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def briefly(monkeypatch):
    monkeypatch.setattr(asking, "PEAKS_BUDGET_S", 1.5)
    for name, value in {"_SPIN_S": 0.1, "_PROCESSES": 2, "_STEADY_S": 0.1, "_WARM_S": 0.0}.items():
        monkeypatch.setattr(examination, name, value)


@pytest.mark.long
def test_peaks_are_measured_kept_and_carried_by_the_next_run(capfd, monkeypatch, briefly):
    code, first = said_as_json(capfd, "machine", "peaks", "--json", "--device", "cpu")
    rates = {rate["name"]: rate["value"] for rate in first["peaks"]["rates"]}
    assert code == 0
    assert rates["matmul_fp32"] > 1e8
    assert {"memory_copy", "memory_triad", "kernel_launch", "disk_read", "image_decode"} <= set(rates)
    assert not any(name.startswith("host_to_device") for name in rates), "there is nothing to transfer to"
    monkeypatch.setattr(asking, "current_peaks", None)  # from here on they are read, not measured
    assert said_as_json(capfd, "machine", "--json", "peaks", "--device", "cpu") == (0, first), "before the word, too"
    assert main(["machine", "peaks", "--device", "cpu"]) == 0
    table = capfd.readouterr().out
    assert "products in fp32" in table
    assert f"measured {first['peaks']['measured_utc']}" in table
    assert "stored: --again measures again" in " ".join(table.split())
    run = ["run", "--task", "train", "--model", "builtin:mlp", "--batch-sizes", "64", "--device", "cpu"]
    code, told = said_as_json(capfd, *run, "--trials", "1", "--iterations", "5", "--warmup", "0", "--json", "--quiet")
    assert code == 0
    assert told["machine"]["peaks"] == [first["peaks"]]
    case = told["cases"][0]
    mfu, achieved = case["estimates"]["mfu_measured"]["value"], case["estimates"]["achieved_flops"]["value"]
    assert mfu == pytest.approx(achieved / case["ceilings"]["measured_flops"])
    assert case["bound"]["what"] in ("compute", "launch", "memory")
    assert main(["show", "--full"]) == 0
    report = capfd.readouterr().out
    assert "[ROOFLINE]" in report
    assert "no vendor's figure is known" in report
    # Beside other programs a case may be near no limit.
    assert f"bounded by {case['bound']['what']}" in report or f"nearest: {case['bound']['what']}" in report


def test_a_check_says_fit_or_not_and_why(capfd, monkeypatch, briefly, tmp_path):
    told = Estimate(1.0, 0.99, 1.01, 0.99, "ratio", "as told", 10, 100)
    sides = (Side("A", "", "c"), Side("A again", "", "c"))
    comparison = Comparison(*sides, "step_time_mean", told, Judgement.UNCLEAR, 1e-6)
    aa_test = ExperimentResult(comparison, (), 10, 2, 15.0, "budget")
    asked = []

    def compare_live(a, b, *_):
        asked.append((a, b))
        return aa_test

    monkeypatch.setattr(examination, "compare_live", compare_live)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where locks lie: nobody else's
    code, found = said_as_json(capfd, "machine", "check", "--json", "--device", "cpu")
    seen = {condition["name"]: condition["seen"] for condition in found["conditions"]}
    assert {"other processes", "interruptions", "spread of steps", "spread of processes", "disk", "clock"} <= set(seen)
    assert code == (found["verdict"] != "fit")
    ((a, b),) = asked
    assert a.case == b.case, "an A/A test"
    shown = terminal(machine_check_document(msgspec.convert(found, examination.Examination)), 80)
    # A half-width of 1 % after 15 s is one of 0.5 % after 60 s, and 0.8 % is found with a power of 95 %.
    assert "detects a difference of 0.8 % with a power of 95 %" in " ".join(shown.split())
    assert shown.startswith(f"This machine is {found['verdict']}")
    assert "A/A test" in shown
    wide = [line for line in shown.splitlines() if len(line) > 80]
    assert not [line for line in wide if " " in line.strip()], "only a path may be longer: it is to be copied"


def test_a_device_that_is_not_here(refused):
    assert "unknown device 'warp'" in refused("machine", "peaks", "--device", "warp")


def test_words_that_machine_does_not_know(refused):
    assert "chekc" in refused("machine", "chekc")
    assert "--agian" in refused("machine", "peaks", "--agian")


def test_all_devices_alone_and_at_once(capfd, monkeypatch):
    monkeypatch.setattr(examination, "ROUNDS", 2)
    monkeypatch.setattr(examination.Processes.__init__, "__defaults__", (0.05,))
    code, found = said_as_json(capfd, "machine", "check", "--all", "--bound", "99%", "--json")
    assert code == 0
    rows = found["rows"]
    assert {row["work"] for row in rows} >= {"products", "memory"}
    assert len(rows) == len(found["devices"]) * len({row["work"] for row in rows})
    assert all(row["alone"]["value"] > 1e6 and row["kept"]["value"] > 0.0 for row in rows)
    assert main(["machine", "check", "--bound", "5%"]) == 2
    assert "--bound is of --all" in capfd.readouterr().err


def test_a_trial_keeps_to_the_cores_it_was_given(capfd):
    core = min(os.sched_getaffinity(0))
    run = ["run", "--task", "infer", "--model", "builtin:mlp", "--device", "cpu", "--trials", "1", "--iterations", "3"]
    brief = ["--warmup", "0", "--no-phases", "--json", "--quiet"]
    code, told = said_as_json(capfd, *run, *brief, "--cpu-affinity", str(core))
    assert code == 0
    assert told["procedure"]["cpu_affinity"] == str(core)
    facts = told["cases"][0]["trials"][0]["facts"]
    assert facts["cpu_affinity"] == str(core)
    assert facts["threads_in_effect"] == 1, "as many threads as it has cores"
    assert main([*run, "--cpu-affinity", "node:4000"]) == 2
    assert "no such NUMA node" in capfd.readouterr().err
