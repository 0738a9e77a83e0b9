"""Train a model for whole epochs, each validated and saved; after a tune, compare with its predicted epoch.

torchstone train sst2-small --data reviews/ --output trained
torchstone train --resume trained --epochs 20
torchstone train my-run.yaml              (after torchstone tune my-run.yaml --apply my-run.yaml)
torchstone train --model builtin:cnn --steps 100
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._measuring import add_measuring, busy_of, run_and_report
from torchstone.cli._place import add_folder, add_push, folder_of, push_to, writable
from torchstone.cli._run_options import add_heap, add_workload, at_least, positive_s, request_from
from torchstone.core import units
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from torchstone.core.schema.training import EpochMetrics
    from torchstone.workflows.run.planned_run import Results
    from torchstone.workflows.train.training import TrainingRequest


def _epoch_line(epoch: EpochMetrics, epochs: int) -> str:
    figures = [f"loss {units.significant(epoch.train_loss, 4)}"]
    if epoch.val_loss is not None:
        figures.append(f"held-out loss {units.significant(epoch.val_loss, 4)}")
    if epoch.val_accuracy is not None:
        figures.append(f"accuracy {units.quantity(epoch.val_accuracy, 'ratio')}")
    figures.append(units.quantity(epoch.train_time_s, "s"))
    return f"epoch {epoch.epoch} of {epochs}: {', '.join(figures)}{', best' * epoch.best}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of train."""
    add_workload(parser)
    how = parser.add_argument_group("how to measure")
    how.add_argument(
        "--epochs", type=int, metavar="N", help="maximum number of passes over the data (default: the recipe's, or 1)"
    )
    how.add_argument("--steps", type=int, metavar="N", help="train for N steps instead of epochs")
    how.add_argument(
        "--output", metavar="DIR", help="folder of checkpoints and metrics (default: a new one in outputs/training)"
    )
    how.add_argument(
        "--resume", metavar="DIR", help="continue the training in DIR, with the same result as without the interruption"
    )
    how.add_argument("--timeout", metavar="T", help="maximum time of the training (default 30 days)")
    how.add_argument("--seed", type=int, metavar="N", help="random seed of data, weights and order (default 0)")
    how.add_argument("--isolation", choices=("auto", "fork", "spawn"), help="how the process is started (default auto)")
    add_heap(how)
    how.add_argument("--telemetry", metavar="T", help="sampling period of telemetry (default 500ms; 0: off)")
    how.add_argument("--name", help="name of the run (default: the recipe's)")
    add_measuring(parser)
    add_push(parser)
    add_folder(parser)
    parser.set_defaults(task="train")


def run(options: argparse.Namespace) -> int:
    """Train, print the report of a run, the epochs, and what an epoch took beside what was predicted."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.core.schema.training import Training
    from torchstone.workflows.train.training import TrainCampaign, default_output

    folder, team = writable(folder_of(options)), push_to(options)
    training, busy = _training_request(options), busy_of(options)
    output = Path(options.resume or options.output or default_output(folder, training.name))
    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    epochs = training.procedure.epochs or 1
    campaign = TrainCampaign(training, output, progress, lambda epoch: progress.say(_epoch_line(epoch, epochs)), busy)
    done: list[Training] = []

    def carry_out() -> Results:
        results = campaign.carry_out(folder, sys.argv[1:])
        assert isinstance(results.summary.answer, Training)
        done.append(results.summary.answer)
        return results

    code = run_and_report(options, folder, progress, carry_out, team=team)
    if not done:
        return code
    return ExitCode.NO if code == ExitCode.DONE and not done[0].ended_well else code


def _training_request(options: argparse.Namespace) -> TrainingRequest:
    from torchstone.workflows.train.training import resumed, training_request

    epochs = at_least("--epochs", options.epochs, 1)
    if options.resume is not None:
        given = ("recipe", "config", "model", "data", "axes", "steps", "output", "seed")
        if wrong := next((name for name in given if getattr(options, name) is not None), None):
            raise UsageError(f"--resume {options.resume} continues with its own settings; leave out {wrong}")
        return resumed(Path(options.resume), epochs)
    if epochs is not None and options.steps is not None:
        raise UsageError("give --epochs or --steps, not both")
    steps = at_least("--steps", options.steps, 1)
    positive_s("--timeout", options.timeout)
    return training_request(request_from(options), epochs, steps, limited=options.timeout is not None)
