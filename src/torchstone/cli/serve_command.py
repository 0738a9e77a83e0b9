"""Serve pages over the stored runs on this machine: runs, comparisons, histories, findings, a run as it goes on.

torchstone serve                                      (http://127.0.0.1:8642/, for this machine alone)
torchstone serve --host 0.0.0.0 --token-file TOKEN    (for other machines, which need the token)

Nothing is changed but the index. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._output import document_of
from torchstone.cli._place import add_place, place_of
from torchstone.core.errors import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of serve."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default 127.0.0.1: this machine alone); any other needs a token",
    )
    parser.add_argument("--port", type=int, default=8642, help="port to listen on (default 8642; 0: a free one)")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that browsers have to give (default: with --host a new one, which is printed)",
    )
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C; return 0."""
    from torchstone.report.pages.server import Listening, serve_pages

    place = place_of(options)
    if isinstance(place, Path) and not place.is_dir():
        raise UsageError(f"no folder {place}: name one with --output-dir, or make a first run: torchstone run smoke")
    where = Listening(options.host, options.port, options.token_file)
    shown = place.absolute() if isinstance(place, Path) else place
    serve_pages(shown, where, document_of, lambda address: print(f"{address}   (Ctrl-C ends it)", flush=True))
    return ExitCode.DONE
