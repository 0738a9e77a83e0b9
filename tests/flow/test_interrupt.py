"""Ctrl-C: what was measured is kept, and no process is left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchstone.cli import main


def children(folder: Path) -> list[str]:
    """Workers on this machine whose environment names this test's own store."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            ours = str(folder).encode() in (proc / "environ").read_bytes()
            line = (proc / "cmdline").read_bytes()
        except OSError:
            continue
        if ours and b"torchstone" in line:
            found.append(f"{proc.name} {line!r}")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("stage", ["importing", "measuring"])
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_process(outputs, stage):
    words = ["run", "--model", "builtin:mlp", "--trials", "50", "--budget", "200ms", "--warmup", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "torchstone", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    if stage == "measuring":
        for line in process.stderr:
            if "finished" in line:
                break
    else:
        while not children(outputs) or len(children(outputs)) < 2:
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert children(outputs) == []
    if stage == "importing":
        assert not outputs.exists()
        return
    (path,) = (outputs / "records").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[-1]["record"] == "end"
    assert lines[-1]["status"] == "interrupted"
    assert sum(line["record"] == "trial" for line in lines) >= 1
    assert "interrupted" in stdout
    assert main(["show", str(path)]) == 0
