"""Who is told what a tune does while it does it: the command line shows the stages as they are answered."""

from __future__ import annotations

from typing import Protocol

from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.search import Probe, ProbeResult
from torchstone.execution.controller.observer import Silent, Watcher


class TuneWatcher(Watcher, Protocol):
    """A Watcher that is also told what the search asks and learns."""

    def searching(self, spec: TuneSpec, points: int) -> None:
        """A search over so many points begins."""

    def probing(self, probe: Probe, number: int) -> None:
        """The search asks for a probe, its `number`-th."""

    def learned(self, reading: ProbeResult) -> None:
        """A probe has told something."""

    def stage(self, text: str) -> None:
        """A new stage of the answer begins."""


class SilentTune(Silent):
    """A TuneWatcher that does nothing."""

    def searching(self, spec: TuneSpec, points: int) -> None:
        """Ignore it."""

    def probing(self, probe: Probe, number: int) -> None:
        """Ignore it."""

    def learned(self, reading: ProbeResult) -> None:
        """Ignore it."""

    def stage(self, text: str) -> None:
        """Ignore it."""
