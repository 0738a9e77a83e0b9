"""Observer of running trials: the command line draws its events, the Python API ignores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torchstone.core.schema.message import Event
from torchstone.core.schema.run import Head, Slot
from torchstone.core.schema.trial import Trial


class Watcher(Protocol):
    """Told about a run as it happens."""

    def begins(self, head: Head) -> None:
        """A run begins; its record is open."""

    def starts(self, slot: Slot, order: int) -> None:
        """A planned trial is about to start."""

    def heard(self, event: Event) -> None:
        """The trial in progress says something."""

    def finished(self, trial: Trial) -> None:
        """A trial has ended and is safely in the record."""

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """The next trial waits for other programs: their names, and how many cores each uses."""


class Silent:
    """A Watcher that does nothing."""

    def begins(self, head: Head) -> None:
        """Ignore it."""

    def starts(self, slot: Slot, order: int) -> None:
        """Ignore it."""

    def heard(self, event: Event) -> None:
        """Ignore it."""

    def finished(self, trial: Trial) -> None:
        """Ignore it."""

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Ignore it."""
