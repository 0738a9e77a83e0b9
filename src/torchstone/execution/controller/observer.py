"""Who hears the events of a process: a Watcher of running trials, or who waits for one answer."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from torchstone.core.schema.message import Ended, Event
from torchstone.core.schema.run import Head, Slot
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.machine_protocols import LiveTrial

_E = TypeVar("_E", bound=Event)


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


def wait_for_answer(
    live: LiveTrial, kind: type[_E], most_s: float, hear: Callable[[Event], None] = lambda _: None
) -> tuple[_E | None, Ended]:
    """Wait for a process that answers one request; return its answer, and how it ended. Nothing of it is left."""
    answer: _E | None = None
    ended: Ended | None = None
    ends_s = system_clock() + most_s
    try:
        while select.select([live], [], [], max(0.0, ends_s - system_clock()))[0]:
            if (events := live.events()) is None:
                break
            for event in events:
                hear(event)
                answer = event if isinstance(event, kind) else answer
                ended = event if isinstance(event, Ended) else ended
        else:
            ended = Ended(Outcome(Status.TIMED_OUT, f"no answer within {most_s:g} s"))
    finally:
        live.kill()
        wrong = live.ending()
    return answer, ended or Ended(Outcome(Status.CRASHED, wrong or "ended without an answer"))
