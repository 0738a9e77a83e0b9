"""The run sheet itself, on the CPU: every step that makes sense there, under three minutes."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from run_sheet.sheet import STEPS

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "accelerator.py"
MOST_S, CORES = 180.0, 2  # of a machine as small as those that continuous integration runs on


@pytest.mark.alone
def test_the_sheet_on_a_cpu(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--device", "cpu", "--quick", "--output", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    table = (tmp_path / "sheet.md").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + table
    told = json.loads((tmp_path / "sheet.json").read_text())["steps"]
    assert list(told) == [step.id for step in STEPS]
    for step in STEPS:
        left_out = step.objection("cpu", quick=True)
        assert told[step.id]["state"] == ("done" if left_out is None else "not here")
        wanted = {e.name for e in step.expects if e.concerns("cpu", "") and e.holds is not None and not e.optional}
        assert wanted <= set(told[step.id]["figures"]) or left_out is not None
    # Not by the clock on the wall: beside others on the cores, and tests are, that says nothing.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CORES * MOST_S


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
