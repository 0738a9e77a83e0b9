"""Two torchstones on one device: the second refuses or waits, as asked."""

import os
import subprocess
import sys
import tempfile

import pytest

from torchstone.cli import main
from torchstone.core.errors import MissingError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.execution import machine_facts
from torchstone.execution.controller.device_lock import WhenBusy, held
from torchstone.workflows.run import planned_run

WORDS = ["run", "--model", "builtin:mlp", "--trials", "1", "--iterations", "2", "--warmup", "0", "--device", "cpu"]


def test_the_second_refuses_or_waits_as_asked(tmp_path, monkeypatch, outputs):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    machine = Machine(machine_facts.host(), (), {}, {})

    def second(how: str) -> subprocess.Popen[str]:
        environment = os.environ | {"TMPDIR": str(tmp_path), "TORCHSTONE_WHEN_BUSY": how}
        return subprocess.Popen(
            [sys.executable, "-m", "torchstone", *WORDS],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    with held([Placement("cpu")], machine, "the-first", WhenBusy()):
        refusing, waiting = second("refuse"), second("wait")
        stdout, stderr = refusing.communicate(timeout=60)
        assert (refusing.returncode, stdout) == (3, "")
        assert stderr.startswith(f"torchstone: cpu is busy: run the-first (pid {os.getpid()}, since 20")
        assert len(stderr.splitlines()) == 1
        assert waiting.stderr is not None
        assert f"waiting for cpu: run the-first (pid {os.getpid()}" in waiting.stderr.readline()
        assert waiting.poll() is None
        assert not outputs.exists()
    _, stderr = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, stderr
    assert "finished (1/1)" in stderr


RANKS = ("--task", "train", "--model", "builtin:mlp", "--axis", "world_size=1,2", "--device", "cpu")


@pytest.mark.parametrize("command", ["run", "tune", "submit"])
def test_the_devices_of_all_ranks_are_held(outputs, monkeypatch, capfd, command):
    found: list[Placement] = []

    def refusing(placements, machine, run_id, busy):
        found.extend(placements)
        raise MissingError("enough")

    monkeypatch.setattr(planned_run, "held", refusing)
    if command == "submit":
        assert main(["submit", *RANKS, "--on", "slurm", "--cases-per-job", "2", "--dry-run"]) == 0
        (plan,) = (outputs / "submitted").glob("*/plan.json")
        assert main(["run", "--plan", str(plan), "--share", "0"]) == 3
    else:
        assert main([command, *RANKS]) == 3
    capfd.readouterr()
    assert max(placement.count for placement in found) == 2
