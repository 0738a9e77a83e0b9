"""What a search for goodput says while it works: a line a load, under the stage it belongs to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchstone.cli._progress import waiting_words
from torchstone.core import units
from torchstone.core.figures import figures
from torchstone.core.plain_text import plain
from torchstone.core.schema.load import OFFLINE, SERVER
from torchstone.core.schema.message import Entered
from torchstone.core.schema.trial import Status
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchstone.core.schema.case import Case
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.run import Head, Slot
    from torchstone.core.schema.trial import Trial


class GoodputProgress:
    """A GoodputWatcher (workflows/goodput/goodput.py) that writes lines to stderr."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet, self._verbose = quiet, verbose
        self._began_s = system_clock()
        self.run_id: str | None = None

    def begins(self, head: Head) -> None:
        """Say which run it is, and how long it may take."""
        self.run_id = head.run_id
        how = head.procedure
        self._print(f"run {head.run_id}: loads of {how.budget_s:g} s or more, within {how.within_s:g} s")

    def stage(self, text: str) -> None:
        """Print a heading."""
        self._print(f"{text}:")

    def told(self, case: Case, trial: Trial) -> None:
        """Say what a load told, and what LoadGen calls it."""
        scenario, found = case.configuration["scenario"], figures(trial).values
        name = f"{case.configuration['target_qps']:g} queries/s" if scenario == SERVER else str(scenario)
        if trial.outcome.status != Status.OK:
            self._print(f"  {name}: {trial.outcome.status}: {trial.outcome.message}")
            return
        rate, p99_s = found.get("throughput"), found.get("query_latency_p99_s")
        told = units.quantity(rate, "items/s") if scenario == OFFLINE else f"p99 {units.quantity(p99_s, 's')}"
        self._print(f"  {name}: {told}   (LoadGen: {trial.facts.loadgen_result})")

    def starts(self, slot: Slot, order: int) -> None:
        """Nothing is planned beforehand."""

    def heard(self, event: Event) -> None:
        """Say which stage of a load begins, where everything is to be told."""
        if self._verbose and isinstance(event, Entered):
            self._print(f"    {system_clock() - self._began_s:8.3f} s  {event.stage}")

    def finished(self, trial: Trial) -> None:
        """Nothing: `told` says it."""

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Say what the next trial waits for."""
        self._print(waiting_words(programs))

    def close(self) -> None:
        """Nothing is open."""

    def _print(self, text: str) -> None:
        if not self._quiet:
            print(plain(text), file=sys.stderr, flush=True)
