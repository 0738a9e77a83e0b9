"""Is this machine fit to measure on: what was looked at, what was seen, and what to do about it."""

from __future__ import annotations

import argparse
import sys

from torchstone.cli._folder import add_folder, existing, folder_of, writable
from torchstone.cli._results import add_save, check_save, print_result
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine check."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda:1, GPU-… (a UUID), rocm, mps, xpu")
    parser.add_argument("--quick", action="store_true", help="skip the A/A test, half of the time")
    parser.add_argument(
        "--all", action="store_true", help="every device alone and all at once: which is slow, what they share"
    )
    parser.add_argument("--bound", metavar="P", help="with --all: a device is slow below this share less (default 5%%)")
    add_save(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Examine the machine; return 0 if it is fit, 1 if it is not."""
    check_save(options)
    if options.all:
        return _all(options)
    if options.bound is not None:
        raise UsageError("--bound is of --all: torchstone machine check --all --bound 5%")
    from torchstone.workflows.machine_check.conditions import Fitness
    from torchstone.workflows.machine_check.examination import examine

    quiet = options.json or not sys.stderr.isatty()

    def tell(stage: str) -> None:
        if not quiet:
            print(f"\r\033[Klooking at: {stage} …", end="", file=sys.stderr, flush=True)

    found = examine(options.device, existing(writable(folder_of(options))), quick=options.quick, tell=tell)
    if not quiet:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print_result(options, "machine_check", found)
    return ExitCode.DONE if found.verdict == Fitness.FIT else ExitCode.NO


def _all(options: argparse.Namespace) -> int:
    """Measure all devices; return 1 where one is slower than the others beyond the bound."""
    from torchstone.core.units import share
    from torchstone.workflows.machine_check.examination import BOUND, examine_all

    quiet = options.json or not sys.stderr.isatty()

    def tell(stage: str) -> None:
        if not quiet:
            print(f"\r\033[K{stage} …", end="", file=sys.stderr, flush=True)

    bound = share(options.bound, "--bound") if options.bound is not None else BOUND
    found = examine_all(bound=bound, tell=tell)
    if not quiet:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    print_result(options, "machine_check_all", found)
    return ExitCode.NO if found.slow else ExitCode.DONE
