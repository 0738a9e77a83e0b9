"""Find the highest rate of queries that a model serves with its 99th percentile within a bound (MLPerf LoadGen).

torchstone goodput distilbert --p99 50ms
torchstone goodput cnn --p99 20ms --max-batch 8 --max-wait 2ms
torchstone goodput my-run.yaml --p99 100ms --axis precision=bf16 --within 10m
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._progress import waiting_words
from torchstone.cli._pushing import add_push, push_to
from torchstone.cli._run_options import add_run_options
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.message import Entered
from torchstone.core.schema.procedure import OFFLINE, SEARCH, SERVER
from torchstone.core.schema.trial import Status
from torchstone.core.units import plain
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchstone.core.schema.case import Case
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.run import Head, Slot
    from torchstone.core.schema.trial import Trial


class GoodputProgress:
    """A GoodputWatcher (workflows/goodput.py) that writes lines to stderr."""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of goodput."""
    load = parser.add_argument_group("load")
    load.add_argument("--p99", metavar="T", help="bound on the 99th percentile of the latency (default 100ms)")
    load.add_argument("--max-batch", type=int, metavar="N", help="maximum number of queries in a batch (default 1)")
    load.add_argument(
        "--max-wait", metavar="T", help="maximum time that a query waits for others before its batch begins (default 0)"
    )
    add_run_options(parser)
    add_measuring(parser)
    add_push(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Search, print the answer, and say where the files are."""
    from torchstone.cli._run_options import asked
    from torchstone.workflows.goodput import GoodputCampaign, GoodputRequest

    if options.recipe is None and options.config is None and options.model is None:
        raise UsageError("nothing to load: name a recipe (torchstone list recipes), a file or a --model")
    settings, rounds, options.trials = _settings(options), options.trials, None
    folder, busy, team = writable(folder_of(options)), busy_of(options), push_to(options)
    request = GoodputRequest(asked(options), settings, rounds)
    progress = GoodputProgress(quiet=options.quiet, verbose=options.debug)
    campaign = GoodputCampaign(request, progress, busy)
    return measured(options, folder, progress, lambda: campaign.carry_out(folder, [SEARCH, *sys.argv[2:]]), team=team)


def _settings(options: argparse.Namespace) -> dict[str, Scalar]:
    """Return the axes that the flags of a load mean. Raises UsageError."""
    from torchstone.cli._procedure_options import at_least, positive_s
    from torchstone.core.units import duration_s

    at_least("--trials", options.trials, 1)
    wait_s = duration_s(options.max_wait, "--max-wait") if options.max_wait is not None else None
    given: dict[str, Scalar] = {
        "latency_bound_s": positive_s("--p99", options.p99),
        "batch_size": at_least("--max-batch", options.max_batch, 1) or 1,
        "max_wait_s": wait_s,
    }
    return {axis: value for axis, value in given.items() if value is not None}
