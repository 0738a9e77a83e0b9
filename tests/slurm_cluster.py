"""A real SLURM for tests, of Debian's packages: `tests/slurm/up.sh` starts one of two nodes in a fifth of a second."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "slurm"
NEEDED = ("slurmctld", "slurmd", "sbatch", "scontrol", "munged")


class Slurm:
    """Two nodes, n1 and n2, on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    def state(self, job: str, task: int) -> str:
        told = self.ask("scontrol", "show", "job", f"{job}_{task}", "--oneliner")
        return next(word.partition("=")[2] for word in told.split() if word.startswith("JobState="))

    def node_of(self, job: str, task: int) -> str:
        told = self.ask("scontrol", "show", "job", f"{job}_{task}", "--oneliner")
        return next(word.partition("=")[2] for word in told.split() if word.startswith("NodeList="))

    def kill(self, node: str) -> None:
        """Kill a node's daemon and all that it has started, as a machine that loses power does."""
        os.kill(int((self.folder / "run" / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if f"SLURMD_NODENAME={node}\0".encode() in (process / "environ").read_bytes():
                    os.killpg(int(process.name), signal.SIGKILL)  # a job's script, and what it has started

    def start(self, node: str) -> None:
        self.ask("slurmd", "-N", node, "-f", str(self.folder / "slurm.conf"))

    def at_once(self, job: str) -> None:
        """Start jobs that were requeued: SLURM waits two minutes."""
        time.sleep(2)  # on the same node in the same second, "Job credential revoked" ends the new attempt
        with contextlib.suppress(subprocess.CalledProcessError):  # some tasks have ended
            self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")


def running() -> Iterator[Slurm]:
    """Yield a SLURM that is up, and end it. Skips, with the reason, where there can be none."""
    paths = os.environ["PATH"] + ":/usr/sbin"
    lacking = [name for name in NEEDED if shutil.which(name, path=paths) is None]
    if lacking or os.geteuid() != 0:
        why = f"{', '.join(lacking)} not installed" if lacking else "only root can start one"
        pytest.skip(f"NO SLURM HERE ({why}): apt-get install slurmctld slurmd slurm-client munge")
    folder = Path(tempfile.mkdtemp(prefix="torchstone_slurm_"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", paths)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        try:
            start = [str(HERE / "up.sh"), str(folder), "2"]
            up = subprocess.run(start, capture_output=True, text=True, timeout=60, check=False)
            assert up.returncode == 0, up.stderr
            yield Slurm(folder)
        finally:
            subprocess.run([str(HERE / "down.sh"), str(folder)], capture_output=True, timeout=60, check=False)
    left = left_of(folder)
    assert not left, f"processes of SLURM are left: {left}"


def left_of(folder: Path) -> list[str]:
    """Return the processes that a SLURM has started, and that know its configuration."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if f"SLURM_CONF={folder}/slurm.conf\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def until(true: Callable[[], bool], most_s: float = 60.0) -> None:
    """Wait until something is true; fail where it does not become so in time."""
    ends = time.monotonic() + most_s
    while not true():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.2)
