"""What a diagnosis says while it works: a line for each thing it looks at or tries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchstone.core import units
from torchstone.core.schema.message import Entered
from torchstone.core.units import plain
from torchstone.execution.controller.observer import Silent
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from torchstone.core.schema.diagnosis import Cause
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.run import Head
    from torchstone.core.schema.trial import Trial


class DiagnoseProgress(Silent):
    """A Watcher that writes lines to stderr; `say` takes those of the diagnosis itself."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet, self._verbose = quiet, verbose
        self._began_s = system_clock()

    def begins(self, head: Head) -> None:
        """Say which run it is."""
        self.say(f"run {head.run_id}")

    def heard(self, event: Event) -> None:
        """Name the stages of trials, where that was asked for."""
        if self._verbose and isinstance(event, Entered):
            self.say(f"  {event.stage}")

    def finished(self, trial: Trial) -> None:
        """Say how long a trial took, where that was asked for."""
        if self._verbose:
            self.say(f"  {trial.trial_id}: {trial.outcome.status}, {units.quantity(trial.duration_s, 's')}")

    def say(self, text: str) -> None:
        """Write a line with the time that has gone by."""
        if not self._quiet:
            print(plain(f"{system_clock() - self._began_s:6.1f} s  {text}"), file=sys.stderr, flush=True)

    def suspects(self, cause: Cause) -> None:
        """Name the first cause, before remedies are tried."""
        from torchstone.report.diagnosis_messages import text

        self.say(f"first suspect: {text(cause.title)}")
