"""Write the report of stored runs as files, one per run and format."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._parsing import words_of
from torchstone.core.errors import UsageError
from torchstone.report.rendering import formats, renderer

_FOR_PROGRAMS = (".json", ".csv")  # always English


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of report."""
    parser.add_argument(
        "runs", nargs="*", metavar="run", default=["latest"],
        help="paths, ids, unique prefixes, names, or latest (default)",
    )  # fmt: skip
    parser.add_argument(
        "--format",
        action="append",
        metavar="FORMATS",
        help=f"any of {', '.join(formats())}, comma-separated (default: md)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder of the reports (default: the folder reports of --output-dir)"
    )
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files and print their names."""
    from torchstone.analysis.summary import summarize
    from torchstone.cli._stored import document_of
    from torchstone.report.translation.documents import in_spoken_language
    from torchstone.storage.query import find

    folder = folder_of(options)
    renderers = [renderer(name) for name in words_of(options.format) or ["md"]]
    summaries = [summarize(find(folder, word)) for word in options.runs]
    there: Path = options.output or folder / "reports"
    written = []
    try:
        there.mkdir(parents=True, exist_ok=True)
        for summary in summaries:
            document = document_of(summary, every=True)
            for one in renderers:
                path = there / f"{summary.run_id}{one.suffix}"
                path.write_bytes(one.render(document if one.suffix in _FOR_PROGRAMS else in_spoken_language(document)))
                written.append(path)
    except OSError as fault:
        raise UsageError(f"cannot write into {there}: {fault.strerror}") from None
    print("\n".join(map(str, written)))
    return 0
