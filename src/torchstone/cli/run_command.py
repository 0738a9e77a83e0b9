"""Measure a model: a recipe by name, a YAML, JSON or TOML file, or flags alone.

torchstone run distilbert
torchstone run distilbert --axis batch_size=1,8 --axis precision=fp32,bf16 --trials 5
torchstone run --task infer --model py:mine.py:load --axis batch_size=1,2
torchstone run my-run.yaml --device cuda:1 --json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._run_options import add_run_options, asked

if TYPE_CHECKING:
    from torchstone.summary import RunSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of run."""
    add_run_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout, and nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--debug", action="store_true", help="a line for every stage of every trial")
    parser.add_argument("--strict", action="store_true", help="exit 1 unless every trial ended well")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, print the table, and say where the files are."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.runner.campaign import Campaign
    from torchstone.terms.trial import Status

    folder = writable(folder_of(options))
    request = asked(options)
    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    try:
        summary, files = Campaign(request, progress).carry_out(folder, sys.argv[1:])
    finally:
        progress.close()
    if options.json:
        from torchstone.cli._json import print_json

        print_json(summary)
    else:
        _print(summary, files)
    good = all(t.outcome.status == Status.OK for case in summary.cases for t in case.trials)
    if summary.status == "interrupted":
        return 130
    return 1 if options.strict and not good else 0


def _print(summary: RunSummary, files: tuple[Path, Path]) -> None:
    from torchstone.cli._case_table import print_cases
    from torchstone.cli._findings import print_findings
    from torchstone.cli._report import print_head

    print_head(summary)
    print_cases(summary)
    print_findings(summary)
    print(f"\nrecord    {summary.record}\ndocument  {files[0]}\ntable     {files[1]}")
    print(f"more      torchstone show {summary.run_id} --full")
