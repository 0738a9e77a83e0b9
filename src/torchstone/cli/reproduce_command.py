"""Measure a stored run again on this machine, by the same plan, and compare: equivalent, different or inconclusive.

torchstone reproduce release-folder
torchstone reproduce report.html --margin 5%
torchstone reproduce 20261121-101500-3fa9c2 --code my-project
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._measuring import add_measuring, busy_of, run_and_report
from torchstone.cli._output import show_document
from torchstone.cli._place import add_folder, folder_of, writable
from torchstone.core.errors import ExitCode, UsageError, unknown
from torchstone.core.units import share

if TYPE_CHECKING:
    from torchstone.analysis.compare.compare import Reproduced
    from torchstone.core.schema.run import Run
    from torchstone.workflows.run.planned_run import Results

_BUNDLES = (".html", ".htm", ".zip")
_NO = ("different", "inconclusive")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of reproduce."""
    parser.add_argument(
        "run",
        metavar="BUNDLE|RUN",
        help="a release (folder or zip), an HTML report, or a stored run: path, id, unique prefix, name, latest",
    )
    parser.add_argument(
        # Two runs on one machine, minutes apart, are rarely known to less.
        "--margin",
        default="10%",
        help="equivalence margin: smaller differences count as equal (default 10%%)",
    )
    parser.add_argument(
        "--code", type=Path, metavar="FOLDER", help="folder of the code that the run measured: its record only names it"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although models, data or code are not those of the record"
    )
    parser.add_argument(
        "--fail-on",
        nargs="+",
        action="extend",
        default=[],
        metavar="ANSWER",
        help="exit 1 if the answer is different, or inconclusive",
    )
    add_measuring(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Measure each run of the bundle again and say what comes of it; return 1 where --fail-on names an answer."""
    folder, margin = writable(folder_of(options)).absolute(), share(options.margin, "--margin")
    for word in options.fail_on:
        if word not in _NO:
            raise unknown("answer of --fail-on", word, _NO)
    if options.code is not None and not options.code.is_dir():
        raise UsageError(f"--code {options.code} is not a folder")
    recorded = list(_recorded(options.run, folder))
    with contextlib.chdir(options.code or Path()):
        codes = [_again(options, folder, one, margin) for one in recorded]
    return max(codes, default=ExitCode.DONE)


def _again(options: argparse.Namespace, folder: Path, recorded: Run, margin: float) -> int:
    from torchstone.analysis.compare.compare import reproduced
    from torchstone.cli._progress import ProgressBar
    from torchstone.storage.query import read_run
    from torchstone.workflows.run.reproduction import Reproduction

    progress = ProgressBar(quiet=options.quiet, verbose=options.debug)
    code = Path.cwd() if options.code is not None else None
    reproduction = Reproduction(recorded, progress, busy_of(options), code=code, force=options.force)
    answers: list[str] = []

    def answer(results: Results) -> Reproduced:
        found = reproduced(recorded, read_run(Path(results.summary.record)), margin)
        answers.append(str(found.answer))
        return found

    ended = run_and_report(
        options,
        folder,
        progress,
        lambda: reproduction.carry_out(folder, sys.argv[1:]),
        show=lambda results: _show(answer(results), results),
        document=lambda results: _whole(answer(results), results),
    )
    return ended or (ExitCode.NO if set(answers) & set(options.fail_on) else ExitCode.DONE)


def _show(found: Reproduced, results: Results) -> None:
    from torchstone.report.documents.comparison import reproduction_document

    show_document(reproduction_document(found, (results.summary.record, str(results.document))))


def _whole(found: Reproduced, results: Results) -> object:
    from torchstone.report.comparison_folder import comparison_json

    return {
        "answer": found.answer,
        "recorded": found.compared.participants[0].runs[0].head.run_id,
        "run_id": results.summary.run_id,
        "comparison": comparison_json(found.compared),
    }


def _recorded(word: str, folder: Path) -> list[Run]:
    """Return the runs to measure again: of a bundle all of its records, else the stored run that the word means."""
    from torchstone.report.bundle import read_bundle, runs_of
    from torchstone.storage.query import locate, read_run

    path = Path(word)
    if path.is_dir() or (path.suffix.lower() in _BUNDLES and path.is_file()):
        return runs_of(read_bundle(path))
    return [read_run(locate(folder, word))]
