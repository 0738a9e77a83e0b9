"""What a wait status says, and the environment of trials."""

import os
import sys

import pytest

from torchstone.launchers._process import describe_status, environment


@pytest.mark.parametrize(
    ("status", "said"),
    [(0, None), (11, "killed by SIGSEGV"), (6, "killed by SIGABRT"), (3 << 8, "exited with code 3")],
)
def test_statuses(status, said):
    assert describe_status(status) == said


def test_a_kill_9_may_be_the_kernels():
    assert "out-of-memory killer" in str(describe_status(9))


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap")
def test_the_fixed_heap_is_the_environments(monkeypatch):
    monkeypatch.setenv("MINE", "kept")
    assert environment("fixed")["MINE"] == "kept"
    assert int(environment("fixed")["MALLOC_MMAP_THRESHOLD_"]) == 1 << 30
    assert "MALLOC_MMAP_THRESHOLD_" not in environment("default") or "MALLOC_MMAP_THRESHOLD_" in os.environ
