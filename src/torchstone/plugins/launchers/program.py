"""Somebody's own program for each trial: `torchstone run -- COMMAND`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.message import Request, TrialRequest
from torchstone.execution.program.trial import ProgramTrial
from torchstone.plugins.launchers._process import PipedTrial, environment, started
from torchstone.plugins.machine_protocols import Launcher


class Program:
    """Starts the command of a trial's workload, and a new interpreter of torchstone's own for every other request."""

    describes = "the command itself for every trial (torchstone run -- COMMAND)"

    def __init__(self) -> None:
        self._environment = environment("default")

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Note the environment."""
        self._environment = environment(heap, folder, pin_threads=pin_threads)

    def ready(self) -> None:
        """Nothing to wait for."""

    def start(self, request: Request) -> PipedTrial | ProgramTrial:
        """Start one request."""
        if isinstance(request, TrialRequest):
            return ProgramTrial(request, self._environment)
        return started(request, self._environment, None)

    def close(self) -> None:
        """Nothing to end."""


PLUGIN: Launcher = Program()
