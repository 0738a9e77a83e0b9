"""Train for whole epochs with settings that are fixed, from the first step on: does a tune's answer hold?

torchstone train my-run.yaml              (after torchstone tune my-run.yaml --apply my-run.yaml)
torchstone train distilbert --data tsv:train.tsv --epochs 2
torchstone train --model builtin:cnn --steps 100
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import msgspec

from torchstone import units
from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._run_options import add_run_options, add_workload, asked, at_least
from torchstone.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from torchstone.config.request import RunRequest, WorkloadRequest
    from torchstone.runner.results import Results
    from torchstone.summary import CaseSummary
    from torchstone.tuning.verifying import Epoch

_LONGEST_S = 30 * 86400.0  # an epoch takes what it takes; a loader that hangs is ended some day


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of train."""
    add_workload(parser)
    how = parser.add_argument_group("how")
    how.add_argument("--epochs", type=int, metavar="N", help="passes over the data (default 1)")
    how.add_argument("--steps", type=int, metavar="N", help="instead: so many steps after warm-up (data without end)")
    how.add_argument("--timeout", metavar="T", help="most time of a training (default 30 days)")
    how.add_argument("--seed", type=int, metavar="N", help="seed of data, weights and order (default 0)")
    how.add_argument("--isolation", choices=("auto", "fork", "spawn"), help="how its process starts (default auto)")
    how.add_argument("--heap", choices=("fixed", "default"), help="fixed: glibc keeps freed memory (default fixed)")
    how.add_argument("--telemetry", metavar="T", help="period of the gauges (default 500ms; 0: off)")
    how.add_argument("--name", help="name of the run (default: the recipe's)")
    add_measuring(parser)
    add_folder(parser)
    sweeping = argparse.ArgumentParser()
    add_run_options(sweeping)
    parser.set_defaults(**vars(sweeping.parse_args([])))  # what only a sweep has is as if it were not given
    parser.set_defaults(task="train")


def run(options: argparse.Namespace) -> int:
    """Train, print the report of a run, and what the epoch took beside what was predicted."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.runner.campaign import Campaign

    folder = writable(folder_of(options))
    request, busy = _request(options), busy_of(options)
    done: list[Results] = []

    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)

    def carry_out() -> Results:
        done.append(Campaign(request, progress, busy).carry_out(folder, sys.argv[1:]))
        return done[0]

    code = measured(options, folder, progress, carry_out)
    if not done:
        return code
    cases = done[0].summary.cases
    if not options.json and request.procedure.epochs is not None:
        for case in cases:
            _print(case, request.procedure.epochs, done[0], folder)
    untrained = any("throughput" not in case.estimates for case in cases)
    return 1 if untrained and code == 0 else code


def _request(options: argparse.Namespace) -> RunRequest:
    """Return the trainings asked for: one configuration each, fed by the loader, one trial."""
    if options.epochs is not None and options.steps is not None:
        raise UsageError("give --epochs or --steps, not both")
    epochs = at_least("--epochs", options.epochs, 1) or (1 if options.steps is None else None)
    options.iterations = at_least("--steps", options.steps, 1)
    request = asked(options)
    limit_s = request.procedure.timeout_s if options.timeout is not None else _LONGEST_S
    procedure = msgspec.structs.replace(
        request.procedure, trials=1, epochs=epochs, iterations=options.iterations, timeout_s=limit_s, phases=False,
        time_limit_s=None,
    )  # fmt: skip
    workloads = tuple(_fixed(workload, epochs) for workload in request.workloads)
    return msgspec.structs.replace(request, workloads=workloads, procedure=procedure)


def _fixed(workload: WorkloadRequest, epochs: int | None) -> WorkloadRequest:
    from torchstone.plan import Ask, sketch

    for axis, values in workload.axes.items():
        if len(values) > 1:
            several = ", ".join(map(str, values))
            raise UsageError(
                f"train takes one value of {axis}, and {workload.model} has {several}: `torchstone tune` picks one, "
                f"or give --axis {axis}={values[0]}"
            )
    fed = msgspec.structs.replace(workload, axes={**workload.axes, "feed": ("loader",)})
    checked = sketch(Ask(fed.task, fed.model, fed.data, fed.options, fed.axes)).workload
    if epochs is not None and checked.data.partition(":")[0] in ("synthetic", "example"):
        raise UsageError(f"{fed.model}: data {checked.data} has no end, so no epoch: name --data, or give --steps N")
    return fed


def _print(case: CaseSummary, epochs: int, results: Results, folder: Path) -> None:
    from torchstone.cli._findings import labels
    from torchstone.cli._table import plain
    from torchstone.tuning.verifying import epoch_of

    print("\n" + plain(f"{labels(results.summary.cases)[case.case_id]} on {case.placement}"))
    epoch = epoch_of(case, epochs, results.summary.machine, folder)
    if epoch is None:
        print(plain(f"  not trained: {case.trials[-1].outcome.message if case.trials else 'not taken'}"))
        return
    each = "" if epochs == 1 else f" each, {epochs} epochs"
    did = f"{epoch.steps} steps, {epoch.items:,} items"
    first = f"the first step's {units.quantity(epoch.first_s * epochs, 's')} among them"
    print(f"  epoch      {units.quantity(epoch.measured_s, 's')}{each}: {did}, {first}")
    _print_prediction(epoch)
    loss = [case.estimates[name].value for name in ("loss_first", "loss_last") if name in case.estimates]
    print(f"  loss       {' → '.join(units.significant(value, 4) for value in loss)}")
    rate = units.quantity(case.estimates["throughput"].value, f"{case.workload.item}s/s")
    print(f"  rate       {rate} after the first step")


def _print_prediction(epoch: Epoch) -> None:
    told = epoch.predicted
    if told is None or epoch.ratio is None:
        print("  predicted  by no tune in this store")
        return
    between = f" [{units.quantity(told.low, 's')}, {units.quantity(told.high, 's')}]" if told.low is not None else ""
    print(
        f"  predicted  {units.quantity(told.value, 's')}{between} by tune {epoch.run_id}; "
        f"without the first step it took {epoch.ratio:.3f} times that"
    )
