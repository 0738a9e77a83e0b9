"""Make, upgrade or look at a team's store (PostgreSQL), and who may do what in it.

torchstone store create --store postgresql://ana@db.example/benchmarks
torchstone store status
torchstone store roles --print     (the statements, for an administrator)
"""

from __future__ import annotations

import argparse
import sys

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._place import add_store, team_of
from torchstone.core.errors import UsageError

_WHAT = ("status", "create", "upgrade", "roles")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of store."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=_WHAT,
        default="status",
        help="status (default): version, size, what you may do; create: make the tables; upgrade: bring them up to "
        "date; roles: make the roles torchstone_reader and torchstone_writer",
    )
    parser.add_argument("--print", action="store_true", help="with roles: print the SQL and change nothing")
    add_store(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Do it, and print the state of the store."""
    from torchstone.storage.team.tables import status

    if options.print:
        from torchstone.storage.team.tables import statements

        if options.what != "roles":
            raise UsageError("--print goes with torchstone store roles")
        for statement in statements():
            print(f"{statement};")
        return 0
    team = team_of(options)
    done = ""
    if options.what == "create":
        from torchstone.storage.team.records import create

        done = "created" if create(team).before is None else "there"
    elif options.what == "upgrade":
        from torchstone.storage.team.records import upgrade

        upgraded = upgrade(team, _say)
        done = "current" if upgraded.before == upgraded.now else "upgraded"
    elif options.what == "roles":
        from torchstone.storage.team.tables import make_roles

        make_roles(team)
        done = "roles"
    found = status(team)
    if options.json:
        print_json(found)
        return 0
    from torchstone.report.documents.runs import store_document

    show_document(store_document(found, done))
    return 0


def _say(done: int) -> None:
    if done % 1000 == 0:
        print(f"{done} runs derived again", file=sys.stderr)
