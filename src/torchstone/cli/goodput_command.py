"""Find the highest rate of queries that a model serves with its 99th percentile within a bound (MLPerf LoadGen).

torchstone goodput distilbert --p99 50ms
torchstone goodput cnn --p99 20ms --max-batch 8 --max-wait 2ms
torchstone goodput my-run.yaml --p99 100ms --axis precision=bf16 --within 10m
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from torchstone.cli._measuring import ProgressLines, add_measuring, busy_of, run_and_report
from torchstone.cli._place import add_folder, add_push, folder_of, push_to, writable
from torchstone.cli._run_options import add_run_options, at_least, positive_s, request_from
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.procedure import OFFLINE, SEARCH, SERVER
from torchstone.core.schema.trial import Status, Trial

if TYPE_CHECKING:
    from torchstone.core.schema.case import Case
    from torchstone.core.schema.run import Head


class GoodputProgress(ProgressLines):
    """A GoodputWatcher (workflows/goodput.py) that writes a line per load."""

    def begins(self, head: Head) -> None:
        """Print which run it is, and how long it may take."""
        self.run_id = head.run_id
        how = head.procedure
        self.say(f"run {head.run_id}: loads of {how.budget_s:g} s or more, within {how.within_s:g} s")

    def stage(self, text: str) -> None:
        """Print a heading."""
        self.say(f"{text}:")

    def ended(self, case: Case, trial: Trial) -> None:
        """Print the result of a load, and what LoadGen calls it."""
        from torchstone.core.figures import figures

        scenario, values = case.configuration["scenario"], figures(trial).values
        name = f"{case.configuration['target_qps']:g} queries/s" if scenario == SERVER else str(scenario)
        if trial.outcome.status != Status.OK:
            self.say(f"  {name}: {trial.outcome.status}: {trial.outcome.message}")
            return
        rate, p99_s = values.get("throughput"), values.get("query_latency_p99_s")
        shown = units.quantity(rate, "items/s") if scenario == OFFLINE else f"p99 {units.quantity(p99_s, 's')}"
        self.say(f"  {name}: {shown}   (LoadGen: {trial.facts.loadgen_result})")


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
    from torchstone.workflows.goodput import GoodputCampaign, GoodputRequest

    if options.recipe is None and options.config is None and options.model is None:
        raise UsageError("nothing to load: name a recipe (torchstone list recipes), a file or a --model")
    settings, rounds, options.trials = _settings(options), options.trials, None
    folder, busy, team = writable(folder_of(options)), busy_of(options), push_to(options)
    request = GoodputRequest(request_from(options), settings, rounds)
    progress = GoodputProgress(quiet=options.quiet, verbose=options.debug)
    campaign = GoodputCampaign(request, progress, busy)
    return run_and_report(
        options, folder, progress, lambda: campaign.carry_out(folder, [SEARCH, *sys.argv[2:]]), team=team
    )


def _settings(options: argparse.Namespace) -> dict[str, Scalar]:
    """Return the axes that the flags of a load mean. Raises UsageError."""
    at_least("--trials", options.trials, 1)
    wait_s = units.duration_s(options.max_wait, "--max-wait") if options.max_wait is not None else None
    given: dict[str, Scalar] = {
        "latency_bound_s": positive_s("--p99", options.p99),
        "batch_size": at_least("--max-batch", options.max_batch, 1) or 1,
        "max_wait_s": wait_s,
    }
    return {axis: value for axis, value in given.items() if value is not None}
