"""Ctrl-C: what was measured is kept, and no process is left."""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
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


COLD = True  # it looks for processes by their environment
WORDS = ["run", "--model", "builtin:mlp", "--trials", "50", "--budget", "200ms", "--warmup", "1"]
INT, TERM = signal.SIGINT, signal.SIGTERM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def started(words: Sequence[str] = WORDS) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "torchstone", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_while_it_imports_leaves_nothing(outputs):
    process = started()
    while len(children(outputs)) < 2:
        time.sleep(0.02)
    process.send_signal(INT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert stderr == "torchstone: interrupted\n"
    assert children(outputs) == []
    assert not outputs.exists()


@pytest.mark.parametrize("signals", [[INT], [TERM], [INT, TERM]], ids=["once", "terminated", "twice"])
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_process(outputs, signals):
    process = started()
    assert process.stderr is not None
    for line in process.stderr:
        if "finished" in line:
            break
    for number in signals:
        process.send_signal(number)  # of two equal ones at once the kernel may deliver one
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert children(outputs) == []
    (path,) = (outputs / "records").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    taken = sum(line["record"] == "trial" for line in lines)
    assert taken >= 1
    resume = f"torchstone: interrupted: `torchstone resume {path.stem}` measures"
    if len(signals) == 1:
        assert (lines[-1]["record"], lines[-1]["status"]) == ("end", "interrupted")
        assert ", interrupted" in " ".join(stdout.split())
        assert stderr.splitlines()[-1] == f"{resume} the remaining {50 - taken} trials"
    else:
        assert lines[-1]["record"] != "end", "it looked at the run although it was to be out at once"
        assert stdout == ""
        assert stderr.splitlines()[-1] == f"{resume} the missing trials"
    assert main(["show", str(path)]) == 0


@pytest.mark.skipif(importlib.util.find_spec("mlperf_loadgen") is None, reason="pip install 'torchstone[load]'")
@pytest.mark.parametrize("signals", [[INT], [INT, TERM]], ids=["once", "twice"])
def test_ctrl_c_in_a_search_for_goodput_keeps_its_loads_and_hints_at_nothing_that_is_refused(outputs, capfd, signals):
    words = ["goodput", "--model", "builtin:mlp", "--p99", "50ms", "--budget", "1s", "--axis", "threads=1"]
    process = started(words)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("  single_stream: "):
            break
    for number in signals:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert children(outputs) == []
    (path,) = (outputs / "records").glob("*.jsonl")
    hint = f"torchstone: interrupted: `torchstone show {path.stem}` shows what was measured; it cannot be resumed"
    assert stderr.splitlines()[-1] == f"{hint}, start a new one"
    unknown = "the highest rate at p99 ≤ 50.0 ms is not known. No rate was measured." in " ".join(stdout.split())
    assert unknown == (len(signals) == 1), stdout
    capfd.readouterr()
    assert main(["show", path.stem]) == 0  # what the hint says
    assert "single_stream" in capfd.readouterr().out
