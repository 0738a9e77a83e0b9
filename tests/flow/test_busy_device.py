"""Two torchstones on one device: the second refuses or waits, as asked."""

import os
import subprocess
import sys
import tempfile

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.execution import machine_facts
from torchstone.execution.controller.device_lock import WhenBusy, held

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
