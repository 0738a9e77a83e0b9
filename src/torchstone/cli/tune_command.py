"""Find the fastest safe settings of a model on this device, at a few percent of the cost of measuring all.

torchstone tune distilbert --data tsv:train.tsv
torchstone tune -- python train.py --batch_size {batch_size}    (a program as you type it)
torchstone tune my-run.yaml --max-memory 80% --apply my-run.yaml
torchstone tune my-run.yaml --effective-batch 1024 --objective energy
torchstone tune my-run.yaml --only num_workers --present batch_size=64
torchstone tune gpt2 --task train --for h100-80gb       (predicts what would fit; measures nothing)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._program import add_program
from torchstone.cli._pushing import add_push, push_to
from torchstone.cli._run_options import add_run_options
from torchstone.cli._tune_options import add_tune_options, tune_asked
from torchstone.core.errors import ExitCode, TorchstoneError, UsageError

if TYPE_CHECKING:
    from torchstone.workflows.run.planned_run import Results

MEASURES_PROGRAMS = True  # behind --


def fitted(options: argparse.Namespace) -> int:
    """Print what fits each card; return the exit code: 1 where nothing does."""
    from torchstone.cli.memory_command import cards_of, telling
    from torchstone.workflows.memory import answered, fitting, shapes_only, tried_on

    request, _ = tune_asked(options)
    request = msgspec.structs.replace(request, run=shapes_only(request.run))
    tried = {card: tried_on(request, card) for card in cards_of(options.cards)}
    answer = answered(request.run, [one for each in tried.values() for one in each.asked], telling(options))
    counts = {}
    for card, each in tried.items():
        rows = [row for row in answer.rows if row.card == card.title]
        counts[card.title] = (fitting(each, rows), len(each.points))
    if options.json:
        from torchstone.cli._json import print_json
        from torchstone.report.documents.memory import memory_json

        points = {card: {"fit": fit, "of": of} for card, (fit, of) in counts.items()}
        print_json({**memory_json(answer), "points": points})
    else:
        from torchstone.cli._render import show_document
        from torchstone.report.documents.memory import memory_document

        told = "; ".join(f"{card}: {fit} of {of}" for card, (fit, of) in counts.items())
        show_document(memory_document(answer, f"Settings that fit, of those that tune would try: {told}."))
    return ExitCode.DONE if any(fit for fit, _ in counts.values()) else ExitCode.NO


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of tune."""
    add_tune_options(parser)
    add_run_options(parser)
    add_measuring(parser)
    add_program(parser)
    add_push(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Search, print the answer, and write it into the user's file where asked."""
    if options.cards is not None and options.program is None:
        if options.push:
            raise UsageError("--for predicts and measures nothing: there is no run to --push")
        return fitted(options)
    from torchstone.cli._tune_progress import TuneProgress
    from torchstone.workflows.tune.program_tune import ProgramTune
    from torchstone.workflows.tune.tune import TuneCampaign

    folder, team = writable(folder_of(options)), push_to(options)
    (request, program), busy = tune_asked(options), busy_of(options)
    progress = TuneProgress(quiet=options.quiet, verbose=options.debug)
    done: list[Results] = []

    campaign: TuneCampaign | ProgramTune
    if program is None:
        campaign = TuneCampaign(request, progress, busy)
    else:
        campaign = ProgramTune(request, program, progress, busy)

    def carry_out() -> Results:
        done.append(campaign.carry_out(folder, sys.argv[1:]))
        return done[0]

    code = measured(options, folder, progress, carry_out, team=team)
    return _concluded(options, done[0]) or code if done else code


def _concluded(options: argparse.Namespace, results: Results) -> int:
    """Apply the answer where asked. Raises TorchstoneError, exit 1, where there is none."""
    from torchstone.cli._applying import apply
    from torchstone.storage.query import read_run
    from torchstone.workflows.tune.tune import no_answer

    summary = results.summary
    if summary.answer is None and summary.status == "done":
        raise TorchstoneError(str(no_answer(read_run(Path(summary.record)))))
    if options.apply is not None and summary.answer is not None:
        apply(options.apply, summary)
    return 0
