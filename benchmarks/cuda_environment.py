"""An environment of its own with the index's plain wheel of torch, and how programs are run in it (cuda_build.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_NEEDED_BYTES = 14 << 30  # the wheels as they come, and unpacked
_EXTRAS = ".[models,data,quality,frames,report,serve,docs,dev]"  # those of `make setup-dev`


class Failed(Exception):
    """A check could not be done: the message is the last line of what it ran."""


class Environment:
    """An environment's interpreter, and how programs are run in it."""

    def __init__(self, folder: Path, processes: int = 2) -> None:
        self.folder = folder
        self.processes = processes
        self.python = folder / "bin" / "python"

    def run(
        self, *words: str, limit_s: float, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its interpreter on this tree. A program that hangs is ended."""
        own = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "benchmarks")))}
        own |= {"HF_HUB_OFFLINE": "1", "TORCHSTONE_WHEN_BUSY": "share", **(more or {})}
        try:
            return subprocess.run(
                [str(self.python), *words], cwd=ROOT, env=own, capture_output=True, text=True, errors="replace",
                timeout=limit_s, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"no end within {limit_s:.0f} s: {' '.join(words)[:100]}") from None

    def answer(self, code: str, *words: str, limit_s: float = 180.0, more: Mapping[str, str] | None = None) -> Any:
        """Run a piece of Python and return what it printed last."""
        done = self.run("-c", code, *words, limit_s=limit_s, more=more)
        try:
            return json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]) from None


def install(environment: Environment) -> dict[str, Any]:
    """Make the environment and install torch from the index, then torchstone with what its tests need."""
    free = shutil.disk_usage(environment.folder.parent).free
    if not environment.python.exists() and free < _NEEDED_BYTES:
        raise Failed(f"{environment.folder.parent} has {free / 2**30:.0f} GiB free; this needs {_NEEDED_BYTES >> 30}")
    began_s = time.monotonic()
    if not environment.python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    # A folder of wheels may hold a build for the CPU, which pip would take. Emptying PIP_FIND_LINKS would not keep that
    # out: pip takes an empty variable for none, and reads its files of settings.
    nothing = environment.folder / "no-wheels"
    nothing.mkdir(exist_ok=True)
    own = {**os.environ, "PIP_FIND_LINKS": str(nothing)}
    pip = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["--constraint", str(ROOT / "constraints.txt")]
    for what in (["torch"], ["--editable", _EXTRAS]):  # torch first and alone, as in the Makefile
        subprocess.run([*pip, *what], cwd=ROOT, env=own, check=True)
    # Not every torch has its torchvision, and without it timm cannot be imported: noted, and no failure.
    vision = subprocess.run([*pip, "timm", "torchvision"], cwd=ROOT, env=own, check=False).returncode == 0
    size = sum(
        path.stat().st_size for path in environment.folder.rglob("*") if path.is_file() and not path.is_symlink()
    )
    return {"good": True, "took_s": round(time.monotonic() - began_s), "size_bytes": size, "vision": vision}
