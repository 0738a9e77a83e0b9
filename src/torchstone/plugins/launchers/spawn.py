"""A new interpreter for every trial: 5 to 8 s to import, nothing inherited. For where forking is not safe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.message import Request
from torchstone.plugins.launchers._process import PipedTrial, environment, started
from torchstone.plugins.machine_protocols import Launcher


class Spawn(Launcher):
    """Starts `python -m torchstone.execution.worker once` for each request."""

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
        return started(request, self._environment, self._folder)

    def close(self) -> None:
        """Nothing to end."""


PLUGIN: Launcher = Spawn()
