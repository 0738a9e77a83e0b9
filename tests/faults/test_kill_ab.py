"""An `ab` whose controller is killed leaves no process: not even the side that was stopped while it waited."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.killing import GONE_WITHIN_S, Marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc; sides wait stopped")

AB = ("ab", "--model", "builtin:mlp", "--task", "train", "--a", "batch_size=256", "--b", "batch_size=255")


def stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def test_the_side_that_waits_stopped_ends_with_the_controller(tmp_path):
    marked = Marked()
    words = [sys.executable, "-m", "torchstone", *AB, "--within", "60s", "--output-dir", str(tmp_path)]
    with (
        open(tmp_path / "said.txt", "w", encoding="utf-8") as said,
        subprocess.Popen(words, env=marked.environment(), stdout=said, stderr=said, cwd=tmp_path) as controller,
    ):
        try:
            until = time.monotonic() + 60.0
            while not any(map(stopped, marked.living())):
                assert controller.poll() is None, (tmp_path / "said.txt").read_text(encoding="utf-8")
                assert time.monotonic() < until, "no side was ever stopped"
                time.sleep(0.002)
        finally:
            controller.kill()
    assert marked.gone_after_s() <= GONE_WITHIN_S, marked.names()
