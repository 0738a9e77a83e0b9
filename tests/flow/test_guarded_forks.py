"""Environments in which imports ask for devices, and machines whose card torch cannot use: really run, on stub drivers.

The driver is a library of a few C functions (tests/stubs), found by its name as a real one is. Not run on a real one.
"""

import json
import subprocess
import sys
from typing import Any

import pytest
import stub_driver
from stub_driver import TOUCHES

NET = """
import torch
import torchaudio


def load():
    return torch.nn.Linear(4, 4), {"input": torch.zeros(2, 4)}
"""
QUICK = ("--trials", "2", "--warmup", "0", "--iterations", "3")


@pytest.fixture
def typed(driver_folder, tmp_path):
    """Run a command where the stub driver is, with modules of these texts before all others."""

    def run(*words: str, modules: dict[str, str] | None = None, **how: str) -> "subprocess.CompletedProcess[str]":
        for name, text in (modules or {}).items():
            (tmp_path / f"{name}.py").write_text(text)
        found = stub_driver.environment(driver_folder, path=tmp_path, STUB_LOG=str(tmp_path / "log"), **how)
        command = [sys.executable, "-m", "torchstone", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, env=found, cwd=tmp_path
        )

    return run


def measured(done: "subprocess.CompletedProcess[str]") -> tuple[Any, list[dict[str, Any]]]:
    """Return the one case, and the findings on the run."""
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    (case,) = run["cases"]
    assert [trial["outcome"]["status"] for trial in case["trials"]] == ["ok", "ok"]
    assert case["estimates"]["throughput"]["value"] > 0
    return case, [found for found in run["findings"] if found["check"] == "not_forked"]


def test_an_import_that_asks_for_devices_makes_new_interpreters_of_trials_and_is_named(typed, tmp_path):
    modules = {"net": NET, "torchaudio": TOUCHES}
    done = typed("run", "--model", "py:net.py:load", "--device", "cpu", *QUICK, "--json", "--quiet", modules=modules)
    case, (finding,) = measured(done)
    assert finding["severity"] == "info"
    assert finding["message"] == (
        "2 of 2 trials started a new interpreter, not a fork: the CUDA driver was initialised "
        "(cuDeviceGetCount returned 0) by the preload of py:net.py:load, at `import torchaudio`"
    )
    told = [trial["facts"]["not_forked"] for trial in case["trials"]]
    assert {(one["id"], one["values"]["module"]) for one in told} == {("initialised.import", "torchaudio")}
    asked = stub_driver.initialised_by(tmp_path / "log")
    assert len(asked) == len(set(asked)), "no process asks twice: none has inherited a driver that is of no use to it"
    assert len(asked) == 1 + 1 + 2, "the template, the rehearsal and both trials; the inspection imports nothing of it"


@pytest.mark.long
def test_where_every_process_asks_all_is_measured_the_same(typed):
    words = ("run", "--model", "builtin:mlp", "--device", "cpu", *QUICK, "--json", "--quiet")
    _, (finding,) = measured(typed(*words, modules={"sitecustomize": TOUCHES}))
    assert "before anything was preloaded, by a sitecustomize or .pth file" in finding["message"]


@pytest.mark.long
def test_a_library_that_is_only_loaded_changes_nothing(typed, tmp_path):
    modules = {"net": NET, "torchaudio": "import ctypes\nctypes.CDLL('libcuda.so.1')\n"}
    done = typed("run", "--model", "py:net.py:load", "--device", "cpu", *QUICK, "--json", "--quiet", modules=modules)
    case, findings = measured(done)
    assert findings == []
    assert not any("not_forked" in trial["facts"] for trial in case["trials"])
    assert stub_driver.initialised_by(tmp_path / "log") == [], "nobody was asked, by us neither"


def test_auto_does_not_pass_over_a_card_in_silence(typed, tmp_path):
    import torch

    if torch.version.cuda:
        pytest.skip("this torch is built for CUDA: what it makes of the stub is another test's")
    done = typed("run", "--model", "builtin:mlp", *QUICK, STUB_CARDS="2")
    assert done.returncode == 3
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "torchstone: device auto: torch cannot use NVIDIA Stub 0 (by NVML), NVIDIA Stub 1 (by NVML): torch "
    )
    assert "is a build without CUDA; NVIDIA driver 580.65.06 is there. --device cpu measures the CPU" in line
    assert not list(tmp_path.rglob("*.jsonl"))
    hidden = typed("run", "--model", "builtin:mlp", *QUICK, CUDA_VISIBLE_DEVICES="")
    assert hidden.returncode == 0, "whoever hides the card wants the CPU"


def test_the_machine_says_why_a_card_cannot_be_used(typed):
    done = typed("machine", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "NVIDIA driver 580.65.06 is there" in found["missing"]["cuda"]
