"""A new interpreter for every trial: 5 to 8 s to import, nothing inherited. For where forking is not safe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.extend_machine import Launcher
from torchstone.launchers._process import PipedTrial, environment, line_to_a_trial
from torchstone.terms.message import Request


class Spawn:
    """Starts `python -m torchstone.worker once` for each request."""

    describes = "a new interpreter for every trial"

    def __init__(self) -> None:
        self._environment = environment("default")
        self._folder: Path | None = None

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Note the environment and the folder; there is nothing to preload."""
        self._environment, self._folder = environment(heap, folder, pin_threads=pin_threads), folder

    def ready(self) -> None:
        """Nothing to wait for."""

    def start(self, request: Request) -> PipedTrial:
        """Start one request."""
        ours, theirs = line_to_a_trial()
        process = subprocess.Popen(
            [sys.executable, "-m", "torchstone.worker", "once", str(theirs)],
            stdin=subprocess.PIPE, pass_fds=(theirs,), env=dict(self._environment), cwd=self._folder,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(request))
            process.stdin.close()
        return PipedTrial(process.pid, ours, lambda: _status_of(process))

    def close(self) -> None:
        """Nothing to end."""


def _status_of(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return -code if code < 0 else code << 8  # back to the form of a wait status


PLUGIN: Launcher = Spawn()
