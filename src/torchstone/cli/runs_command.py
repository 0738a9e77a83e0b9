"""List the stored runs, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.core.errors import UsageError

if TYPE_CHECKING:
    from torchstone.cli._table import Column
    from torchstone.storage.query import RunRow

_LEAST_NAME = 16  # characters: rather than shorten a name further, other columns leave
_HOST_RANK = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of runs."""
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="maximum number of runs to list (default 20; 0: all)"
    )
    parser.add_argument("--name", help="only runs whose name contains this")
    parser.add_argument("--device", help="only runs on this kind of device")
    parser.add_argument("--rebuild", action="store_true", help="first rebuild the index from the records")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Print the list."""
    from torchstone.storage.index import rebuild, sync
    from torchstone.storage.query import runs

    if options.limit < 0:
        raise UsageError(f"--limit {options.limit} is too small: 0 (all) or more")
    folder = folder_of(options)
    problems = rebuild(folder) if options.rebuild else sync(folder)
    rows = runs(folder, options.limit or None, options.name, options.device)
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"runs": rows, "problems": problems})
        return 0
    if not rows:
        print(f"no runs in {folder}; to make one, type torchstone run smoke")
    else:
        from torchstone.cli._table import show

        show(_columns(rows))
    for problem in problems:
        print(f"unreadable: {problem}")
    return 0


def _columns(rows: Sequence[RunRow]) -> list[Column]:
    """Return the columns. A long name is cut to the room that the others leave it, the host's aside."""
    from torchstone.cli._table import GAP, Column, cut, plain, terminal_width

    run = Column("run", [plain(r.run_id) for r in rows], left=True)
    others = [
        Column("device", [plain(r.device) for r in rows], 2, left=True),
        Column("host", [plain(r.host) for r in rows], _HOST_RANK, left=True),
        Column("cases", [str(r.cases) for r in rows], 3),
        Column("trials ok", [f"{r.ok}/{r.trials}" for r in rows], 4),
        Column("status", [plain(r.status) for r in rows], 1, left=True),
    ]
    taken = sum(c.width + GAP for c in (run, *others) if c.rank < _HOST_RANK)
    room = max(_LEAST_NAME, terminal_width() - taken - GAP)
    return [run, Column("name", [cut(plain(r.name), room) for r in rows], 1, left=True), *others]
