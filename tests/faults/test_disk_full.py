"""A disk that fills up in the middle of a run: a clear stop, a readable record, and `resume` takes the rest."""

import contextlib
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchstone.storage.record_reader import read_record

SIZES = range(1, 7)
PAGE = 4096


def run(folder: Path, *words: str, limit_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    def limited() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    return subprocess.run(
        [sys.executable, "-m", "torchstone", *words], capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=limited, env=os.environ | {"TORCHSTONE_OUTPUT": str(folder)},
    )  # fmt: skip


def sweep(folder: Path, **limits: int) -> subprocess.CompletedProcess[str]:
    axis = "batch_size=" + ",".join(map(str, SIZES))
    words = ["--model", "builtin:mlp", "--axis", axis, "--trials", "1", "--iterations", "30", "--warmup", "0"]
    words += ["--isolation", "fork"]
    return run(folder, "run", *words, **limits)


def check_stop_and_resume(folder: Path, stopped: subprocess.CompletedProcess[str], why: str, free) -> None:
    assert stopped.returncode == 3, stopped.stderr
    assert "Traceback" not in stopped.stderr
    (path,) = (folder / "records").glob("*.jsonl")
    line = stopped.stderr.splitlines()[-1]
    assert line.startswith("torchstone: cannot write ")
    assert f"{why}; free some space, then `torchstone resume {path.stem}` continues" in line
    assert path.read_bytes().endswith(b"}\n"), "half a line is left"
    reported = re.findall(r"^trial (\w+) finished", stopped.stderr, re.MULTILINE)
    before = [t.trial_id for t in read_record(path).trials]
    assert before == reported
    assert before
    shown = run(folder, "show", path.stem)  # the index does not fit either: it is made in memory
    assert shown.returncode == 0, shown.stderr
    free()
    resumed = run(folder, "resume")
    assert resumed.returncode == 0, resumed.stderr
    whole = read_record(path)
    assert [t.trial_id for t in whole.trials][: len(before)] == before
    assert sorted(t.case_id for t in whole.trials) == sorted(c.case_id for c in whole.head.plan.cases)
    assert whole.end is not None
    assert whole.end.status == "done"
    assert len(list(folder.glob("benchmark_*.json"))) == 1


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root mounts a tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_stops_the_sweep_and_resume_completes_it(small_disk):
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        file.write(b"x" * (2**20 - 12 * PAGE))
    stopped = sweep(small_disk)
    check_stop_and_resume(small_disk, stopped, "No space left on device", ballast.unlink)


@pytest.mark.long
def test_a_limit_on_file_sizes_does_the_same(tmp_path):
    stopped = sweep(tmp_path / "out", limit_bytes=22_000)
    check_stop_and_resume(tmp_path / "out", stopped, "File too large", lambda: None)
