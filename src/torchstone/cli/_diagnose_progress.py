"""What a diagnosis says while it works: a line for each thing it looks at or tries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchstone import units
from torchstone.cli._table import plain
from torchstone.instrument.clock import system_clock
from torchstone.runner.watcher import Silent
from torchstone.terms.message import Entered

if TYPE_CHECKING:
    from torchstone.terms.message import Event
    from torchstone.terms.run import Head
    from torchstone.terms.trial import Trial


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
