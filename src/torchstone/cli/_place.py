"""Where a command reads stored runs: the output folder, or a team's store."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.storage.place import Place, Team

VARIABLE = "TORCHSTONE_STORE"


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add --output-dir and --store."""
    add_folder(parser)
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"read a team's store, postgresql://USER@HOST/DATABASE (default: ${VARIABLE}, unless --output-dir is "
        "given); the password comes from ~/.pgpass or PGPASSWORD",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --store alone."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"the team's store, postgresql://USER@HOST/DATABASE (default: ${VARIABLE}); the password comes from "
        "~/.pgpass or PGPASSWORD",
    )


def place_of(options: argparse.Namespace) -> Place:
    """Return where runs are read: --store, else --output-dir where it was typed, else $TORCHSTONE_STORE."""
    team = _team(options.store, os.environ.get(VARIABLE, "") if options.output_dir is None else "")
    return folder_of(options) if team is None else team


def team_of(options: argparse.Namespace) -> Team:
    """Return the team's store. Raises UsageError where none is named."""
    team = _team(options.store, os.environ.get(VARIABLE, ""))
    if team is None:
        raise UsageError(f"no store is named: type --store postgresql://USER@HOST/DATABASE, or set {VARIABLE}")
    return team


def team_of_environment() -> Team | None:
    """Return the store that the environment names; None where it names none."""
    return _team(None, os.environ.get(VARIABLE, ""))


def given_team(options: argparse.Namespace) -> Team | None:
    """Return the store that --store names; None without the flag."""
    return _team(options.store, "")


def _team(typed: str | None, of_environment: str) -> Team | None:
    if typed is None and not of_environment:
        return None
    from torchstone.storage.place import team_at

    return team_at(typed, typed=True) if typed is not None else team_at(of_environment, typed=False)
