"""Measure a model: a recipe, a YAML, JSON or TOML file, or options alone.

torchstone run distilbert
torchstone run distilbert --axis batch_size=1,8 --axis precision=fp32,bf16 --trials 5
torchstone run --task infer --model py:mine.py:load --axis batch_size=1,2
torchstone run my-run.yaml --device cuda:1 --json
"""

from __future__ import annotations

import argparse
import sys

from torchstone.cli._folder import add_folder, folder_of, writable
from torchstone.cli._measuring import add_measuring, busy_of, measured
from torchstone.cli._run_options import add_run_options, asked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of run."""
    add_run_options(parser)
    add_measuring(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, print the table, and say where the files are."""
    from torchstone.cli._progress import ProgressBar
    from torchstone.workflows.run.planned_run import Campaign

    folder = writable(folder_of(options))
    request, busy = asked(options), busy_of(options)

    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    return measured(
        options, folder, progress, lambda: Campaign(request, progress, busy).carry_out(folder, sys.argv[1:])
    )
