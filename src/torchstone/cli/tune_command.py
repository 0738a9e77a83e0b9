"""Find the fastest safe settings of a model on this device, at a few percent of what trying everything costs.

torchstone tune distilbert --data tsv:train.tsv
torchstone tune my-run.yaml --max-memory 80% --apply my-run.yaml
torchstone tune my-run.yaml --effective-batch 1024 --objective energy
torchstone tune my-run.yaml --only num_workers --present batch_size=64
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._run_options import add_run_options
from torchstone.cli._tune_options import add_tune_options, tune_asked
from torchstone.errors import TorchstoneError

if TYPE_CHECKING:
    from pathlib import Path

    from torchstone.summary import RunSummary
    from torchstone.tuning.campaign import Tuned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of tune."""
    add_tune_options(parser)
    add_run_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout, and nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Search, print the answer, and write it into the user's file where asked."""
    from torchstone.cli._tune_progress import TuneProgress
    from torchstone.tuning.campaign import carry_out

    folder = writable(folder_of(options))
    request = tune_asked(options)
    if options.apply is not None:
        from torchstone.config.applying import check_target

        check_target(options.apply)  # before an hour is spent
    progress = TuneProgress(quiet=options.quiet)
    try:
        tuned = carry_out(request, progress, folder, sys.argv[1:])
    finally:
        progress.close()
    return report(options, tuned)


def report(options: argparse.Namespace, tuned: Tuned) -> int:
    """Print a finished tune, apply its answer where asked, and return the exit code."""
    summary, files, nothing = tuned
    if options.json:
        from torchstone.cli._json import print_json

        print_json(summary)
    else:
        _print(summary, files)
    if summary.status == "interrupted":
        return 130
    if nothing is not None:
        raise TorchstoneError(nothing)  # the question's answer is no
    return _apply(options, summary) if getattr(options, "apply", None) is not None else 0


def _print(summary: RunSummary, files: tuple[Path, Path]) -> None:
    from torchstone.cli._answer import in_duel, print_answer
    from torchstone.cli._case_table import print_cases
    from torchstone.cli._findings import print_findings
    from torchstone.cli._report import print_head

    print_head(summary)
    print_answer(summary)
    finalists = in_duel(summary)
    print_cases(finalists)
    print_findings(finalists)
    print(f"\nrecord    {summary.record}\ndocument  {files[0]}\ntable     {files[1]}")
    print(f"more      torchstone show {summary.run_id} --full")


def _apply(options: argparse.Namespace, summary: RunSummary) -> int:
    from torchstone.config.applying import diff_text, plan_changes, write

    if summary.answer is None:
        return 0
    changes = plan_changes(options.apply, summary.answer.settings)
    print(diff_text(changes), file=sys.stderr, end="")
    backup = write(changes)
    told = f"wrote {options.apply}; as it was: {backup}" if backup else f"{options.apply} says so already"
    print(told, file=sys.stderr)
    return 0
