"""Is this machine fit to measure on: what was looked at, what was seen, and what to do about it."""

from __future__ import annotations

import argparse
import sys

from torchstone.cli._folder import add_folder, existing, folder_of, writable
from torchstone.core.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine check."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda:1, GPU-… (a UUID), rocm, mps, xpu")
    parser.add_argument("--quick", action="store_true", help="skip the A/A test, half of the time")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Examine the machine; return 0 if it is fit, 1 if it is not."""
    from torchstone.workflows.machine_check.conditions import Fitness
    from torchstone.workflows.machine_check.examination import examine

    quiet = options.json or not sys.stderr.isatty()

    def tell(stage: str) -> None:
        if not quiet:
            print(f"\r\033[Klooking at: {stage} …", end="", file=sys.stderr, flush=True)

    found = examine(options.device, existing(writable(folder_of(options))), quick=options.quick, tell=tell)
    if not quiet:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if options.json:
        from torchstone.cli._json import print_json

        print_json(found)
    else:
        from torchstone.cli._render import show_document
        from torchstone.report.documents.machine_check import machine_check_document

        show_document(machine_check_document(found))
    return ExitCode.DONE if found.verdict == Fitness.FIT else ExitCode.NO
