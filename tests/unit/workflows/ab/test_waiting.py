"""The side that waits is stopped with all that it started, and goes on; where nothing would end it, it is not."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from build import a_case

from torchstone.core.schema.case import Placement
from torchstone.core.schema.procedure import Procedure
from torchstone.workflows.ab import pair

FORKS = r"""import os, time
os.write(1, b"%d\n" % (os.fork() or os.getppid()))  # in one piece: both write
while True: time.sleep(0.01)"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def soon(pids: set[int], *, stopped: bool) -> bool:
    until = time.monotonic() + 10.0
    while any((state(pid) == "T") != stopped for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


@linux
def test_all_that_a_side_started_stops_and_goes_on():
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True) as side:
        try:
            assert side.stdout is not None
            pids = {int(side.stdout.readline()) for _ in range(2)}
            assert side.pid in pids
            assert len(pids) == 2
            pair.stop(side.pid)
            assert soon(pids, stopped=True)
            pair.go_on(side.pid)
            assert soon(pids, stopped=False)
        finally:
            subprocess.run(["kill", "-9", "--", f"-{side.pid}"], check=True)
    pair.stop(side.pid)  # it has ended: nothing happens


@pytest.mark.parametrize(
    ("device", "isolation", "stopped"),
    [("cpu", "fork", True), ("cpu", "auto", True), ("cpu", "spawn", False), ("cuda", "fork", False)],
)
def test_only_what_the_kernel_would_end_with_us_is_stopped(device, isolation, stopped, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert pair.is_stopped(a_case(placement=Placement(device)), Procedure(isolation=isolation)) == stopped


def test_elsewhere_nothing_is_stopped(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not pair.is_stopped(a_case(), Procedure(isolation="auto"))
