"""The lock on a device: other processes hold it for real, and strangers leave what they like in its folder."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import pytest
from build import a_machine

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.controller.device_lock import WhenBusy, held

CPU = [Placement("cpu")]
CARDS = tuple(DeviceInfo("cuda", "cuda", "nvidia", n, "H200", uuid=f"GPU-{n}") for n in range(2))
MACHINE = a_machine(devices=CARDS)
HOLDER = """
import sys
from build import a_machine
from torchstone.execution.controller.device_lock import WhenBusy, held
from torchstone.core.schema.case import Placement
with held([Placement("cpu")], a_machine(), "other-run", WhenBusy()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "torchstone-devices"


@pytest.fixture
def other(tmp_path):
    """Another process that holds the CPU."""
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def refused(placements=CPU):
    with pytest.raises(MissingError) as fault, held(placements, MACHINE, "mine", WhenBusy("refuse")):
        pass
    return str(fault.value)


def free(placements=CPU):
    with held(placements, MACHINE, "mine", WhenBusy("refuse")):
        return True


def test_a_busy_device_is_refused_by_name_and_free_when_its_holder_dies(other):
    assert f"cpu is busy: run other-run (pid {other.pid}, since 20" in refused()
    with held(CPU, MACHINE, "mine", WhenBusy("share")):
        pass
    assert "other-run" in refused(), "who shares does not take the lock away"
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert free()


def test_who_waits_is_told_for_whom_and_goes_on_when_it_is_free(other):
    said: list[str] = []
    release = threading.Timer(0.3, other.kill)
    release.start()
    with held(CPU, MACHINE, "mine", WhenBusy("wait", said.append)):
        release.join()
        assert other.wait() != 0
        assert "run mine" in refused()
    assert [f"waiting for cpu: run other-run (pid {other.pid}" in line for line in said] == [True]
    assert free()


def test_every_device_has_a_lock_of_its_own():
    with held([Placement("cuda", 1), *CPU], MACHINE, "mine", WhenBusy("refuse")):
        assert "cuda:1 is busy" in refused([Placement("cuda", 1)])
        assert "cpu is busy" in refused()
        assert free([Placement("cuda", 0)])
        renamed = a_machine(devices=(msgspec.structs.replace(CARDS[1], index=0),))
        with pytest.raises(MissingError), held([Placement("cuda", 0)], renamed, "mine", WhenBusy("refuse")):
            pass


def test_ranks_on_several_cards_hold_all_of_them():
    with held([Placement("cuda", 0, count=2)], MACHINE, "mine", WhenBusy("refuse")):
        assert "cuda:1 is busy" in refused([Placement("cuda", 1)])
        assert "cuda:0 is busy" in refused([Placement("cuda", 0)])


def test_who_may_use_other_cores_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3}, raising=False)
    with held(CPU, MACHINE, "mine", WhenBusy("refuse")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
        assert free()
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2})
        assert "cpu is busy: run mine" in refused()


def test_who_waits_to_a_limit_is_refused_then(other):
    said: list[str] = []
    began_s = time.monotonic()
    shortly = WhenBusy.read("wait:400ms", said.append)
    with pytest.raises(MissingError, match=r"more than 0\.4 s: run other-run"), held(CPU, MACHINE, "mine", shortly):
        pass
    assert 0.4 <= time.monotonic() - began_s < 5.0
    assert len(said) == 1
    other.send_signal(signal.SIGKILL)
    other.wait()
    with held(CPU, MACHINE, "mine", WhenBusy.read("wait:1h", said.append)):
        assert len(said) == 1


def test_the_folder_is_everybodys_and_nobody_is_believed(folder, other, capfd):
    assert folder.stat().st_mode & 0o7777 == 0o1777
    lock, *_ = sorted(folder.iterdir())
    assert lock.stat().st_mode & 0o777 == 0o666
    for content in (b"", b"{}", b"\x80" * 9000, b'{"run_id":"\\u001b[31m","pid":1,"started":"' + b"x" * 900 + b'"}'):
        lock.write_bytes(content)
        said = refused()
        assert said.isprintable()
        assert len(said) < 400


@pytest.mark.parametrize("trap", ["link", "folder", "pipe", "hard link", "linked folder"])
def test_no_trap_in_the_folder_is_followed(folder, tmp_path, trap):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    assert free()
    lock, *others = sorted(folder.iterdir())
    for one in (lock, *others):
        one.unlink()
    if trap == "link":
        lock.symlink_to(victim)
    elif trap == "folder":
        lock.mkdir()
    elif trap == "pipe":
        os.mkfifo(lock)
    elif trap == "hard link":
        lock.hardlink_to(victim)
    else:
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    said: list[str] = []
    with held(CPU, MACHINE, "mine", WhenBusy("refuse", said.append)):
        assert "no lock on the device" in said[0]
    assert victim.read_text() == "precious"
    assert trap != "linked folder" or list((tmp_path / "elsewhere").iterdir()) == []


def test_an_unknown_word_is_refused():
    with pytest.raises(UsageError, match="Did you mean 'wait'"):
        WhenBusy.read("wat", print)
    for word in ("share:1m", "wait:soon"):
        with pytest.raises(UsageError):
            WhenBusy.read(word, print)
