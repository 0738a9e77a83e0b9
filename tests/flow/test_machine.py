"""`machine peaks` and `machine check` on this machine, briefly, and what a run says of itself once peaks are known."""

import json

import msgspec
import pytest

from torchstone.ab.contest import Contested
from torchstone.cli import _machine_check, main
from torchstone.fitness import examination
from torchstone.peaks import asking
from torchstone.terms.comparison import Comparison, Judgement, Side
from torchstone.terms.estimate import Estimate


def said_as_json(capfd, *words):
    capfd.readouterr()
    code = main(list(words))
    return code, json.loads(capfd.readouterr().out)


@pytest.fixture
def briefly(monkeypatch):
    monkeypatch.setattr(asking, "BUDGET_S", 1.5)
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
    monkeypatch.setattr(asking, "measured", None)  # from here on they are read, not measured
    assert said_as_json(capfd, "machine", "--json", "peaks", "--device", "cpu") == (0, first), "before the word, too"
    assert main(["machine", "peaks", "--device", "cpu"]) == 0
    table = capfd.readouterr().out
    assert "products in fp32" in table
    assert f"measured {first['peaks']['measured_utc']}" in table
    assert "kept from then" in table
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
    assert f"bounded by {case['bound']['what']}" in report


def test_a_check_says_fit_or_not_and_why(capfd, monkeypatch, briefly, tmp_path):
    told = Estimate(1.0, 0.99, 1.01, 0.99, "ratio", "as told", 10, 100)
    sides = (Side("A", "", "c"), Side("A again", "", "c"))
    comparison = Comparison(*sides, "step_time", told, Judgement.UNCLEAR, 1e-6)
    contested = Contested(comparison, (), 10, 2, 15.0, "budget")
    asked = []

    def contest(a, b, *_):
        asked.append((a, b))
        return contested

    monkeypatch.setattr(examination, "contest", contest)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where locks lie: nobody else's
    code, found = said_as_json(capfd, "machine", "check", "--json", "--device", "cpu")
    seen = {condition["name"]: condition["seen"] for condition in found["conditions"]}
    assert {"neighbours", "interruptions", "spread of steps", "spread of processes", "disk", "clock"} <= set(seen)
    assert code == (found["verdict"] != "fit")
    ((a, b),) = asked
    assert a.case == b.case, "an A/A test"
    monkeypatch.setenv("COLUMNS", "80")
    _machine_check.show_examination(msgspec.convert(found, examination.Examination))
    shown = capfd.readouterr().out
    # A half-width of 1 % after 15 s is one of 0.5 % after 60 s, and 0.8 % is found 19 times in 20.
    assert "finds a difference of 0.8 % 19 times in 20" in shown
    assert f"this machine is {found['verdict']}" in shown
    assert "A/A test" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_device_that_is_not_here(refused):
    assert "unknown device 'warp'" in refused("machine", "peaks", "--device", "warp")


def test_words_that_machine_does_not_know(refused):
    assert "chekc" in refused("machine", "chekc")
    assert "--agian" in refused("machine", "peaks", "--agian")
