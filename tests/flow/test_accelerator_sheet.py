"""The run sheet itself, on the CPU: every step that makes sense there, under three minutes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_sheet.sheet import STEPS

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "accelerator.py"
MOST_S = 180.0


@pytest.mark.alone
def test_the_sheet_on_a_cpu(tmp_path):
    busy_cores, began_s = os.getloadavg()[0], time.monotonic()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--device", "cpu", "--quick", "--output", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    took_s = time.monotonic() - began_s
    table = (tmp_path / "sheet.md").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + table
    told = json.loads((tmp_path / "sheet.json").read_text())["steps"]
    assert list(told) == [step.id for step in STEPS]
    for step in STEPS:
        left_out = step.objection("cpu", quick=True)
        assert told[step.id]["state"] == ("done" if left_out is None else "not here")
        wanted = {e.name for e in step.expects if e.concerns("cpu", "") and e.holds is not None and not e.optional}
        assert wanted <= set(told[step.id]["figures"]) or left_out is not None
    if busy_cores < 0.5:  # the claim is of a machine that does nothing else
        assert took_s < MOST_S


def test_on_a_machine_without_the_device_the_first_step_says_so(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one here")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--device", "cuda", "--step", "A0", "--output", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    figures = json.loads((tmp_path / "sheet.json").read_text())["steps"]["A0"]["figures"]
    assert figures["devices"] == 0
    assert "CUDA" in figures["missing"]
