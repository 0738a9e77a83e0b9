"""Write a release of stored runs: reports, figures, records, environment, README, CITATION.cff, SHA256SUMS.

torchstone release latest --output results
torchstone release my-sweep other-run --output results.zip --title "Batch sizes on two cards" --author "A. Person"
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torchstone.cli._output import document_of
from torchstone.cli._place import add_folder, folder_of
from torchstone.core.errors import ExitCode
from torchstone.core.units import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of release."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="paths, ids, unique prefixes, names, or latest")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="a new or empty folder, or a file that ends in .zip"
    )
    parser.add_argument("--title", help="title of the README and the citation (default: the names of the runs)")
    parser.add_argument(
        "--author", action="append", default=[], metavar="NAME", help="an author, for CITATION.cff; may be repeated"
    )
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Write it, print where it is, and say on stderr what is not in it."""
    from torchstone.analysis.summary import summarize
    from torchstone.report.release import check_output, release_of, write_release
    from torchstone.storage.query import find

    check_output(options.output)
    folder = folder_of(options)
    summaries = [summarize(find(folder, word)) for word in options.runs]
    title = options.title or ", ".join(dict.fromkeys(summary.name for summary in summaries))
    made = release_of(summaries, lambda summary: document_of(summary, every=True, pictures=True), title, options.author)
    path = write_release(made, options.output)
    for line in made.left_out:
        print(plain(f"torchstone: left out: {line}"), file=sys.stderr)
    print(f"{path}: {len(made.files)} files")
    return ExitCode.DONE
