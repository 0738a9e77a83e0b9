"""Keep the result of a commit: one immutable file on a branch of its own, which needs no work tree."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._ci_options import add_result, assessment
from torchstone.core.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ci history."""
    add_result(parser)
    parser.add_argument(
        "--branch", default="torchstone-history", metavar="NAME", help="of the history (default: torchstone-history)"
    )
    parser.add_argument("--push", metavar="REMOTE", help="fetch the branch from there first, and push it")


def run(options: argparse.Namespace) -> int:
    """Add the entry; print whether it was new."""
    from torchstone.analysis.ci import entry_of
    from torchstone.workflows.ci.history_branch import add

    entry = entry_of(assessment(options))
    new = add(entry, Path.cwd(), options.branch, options.push)
    where = f"{options.push}/{options.branch}" if options.push else options.branch
    what = "added" if new else "is there already, and stays as it is"
    print(f"torchstone: {where}: commits/{entry.commit}.json {what}")
    return ExitCode.DONE
