"""Is this machine fit to measure on: what was looked at, what was seen, and what to do about it."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, existing, folder_of, writable
from torchstone.cli._table import plain, terminal_width
from torchstone.core import units
from torchstone.core.errors import ExitCode

if TYPE_CHECKING:
    from torchstone.workflows.machine_check.examination import Examination


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine check."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1, rocm, mps, xpu")
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
        show_examination(found)
    return ExitCode.DONE if found.verdict == Fitness.FIT else ExitCode.NO


def show_examination(found: Examination) -> None:
    """Print each condition, the verdict, and what to do."""
    width = terminal_width()
    names = max(len(condition.name) for condition in found.conditions)
    for c in found.conditions:
        line = f"{c.name:<{names}}  {c.fitness:<7}  {c.seen}"
        print(textwrap.fill(plain(line), width, subsequent_indent=" " * (names + 11)))
    print(f"\nthis machine is {found.verdict}")
    advised = [f"{c.name}: {c.advice}" for c in found.conditions if c.advice is not None]
    for line in advised:
        print(textwrap.fill(plain(f"- {line}"), width, subsequent_indent="  "))
    if found.settled_in_a_minute is not None:
        least = units.quantity(found.settled_in_a_minute, "ratio")
        print(f"a minute of `torchstone ab` finds a difference of {least} 19 times in 20")
