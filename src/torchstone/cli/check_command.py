"""Check results, stored ones or files of other tools, for measurement errors: a verdict for each case, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._place import add_folder, folder_of
from torchstone.core.errors import ExitCode, UsageError

if TYPE_CHECKING:  # a summary brings the index, which --help does not need
    from torchstone.analysis.summary import RunSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of check."""
    parser.add_argument(
        "runs",
        nargs="*",
        default=["latest"],
        metavar="RUN|FILE",
        help="an id, a name or latest; a record, a document, a file of another tool or a folder (default: latest)",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 unless every case is VALID")
    parser.add_argument("--full", action="store_true", help="print every case and every finding separately")
    add_json(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Look, show, and return 1 if --strict and anything is doubtful."""
    faults: list[str] = []
    checked = [summary for word in options.runs for summary in _checked_runs(folder_of(options), word, faults)]
    if options.json:
        print_json({"runs": [_document(summary) for summary in checked]})
    else:
        from torchstone.report.documents.findings import check_document

        show_document(check_document(checked), every=options.full)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UsageError(f"{faults[0]}{more}; the other files were checked")
    believed = all(summary.cases and all(case.verdict == "VALID" for case in summary.cases) for summary in checked)
    return ExitCode.NO if options.strict and not believed else ExitCode.DONE


def _checked_runs(folder: Path, word: str, faults: list[str]) -> Iterator[RunSummary]:
    """Yield what a word means, looked at anew: a check may have been written since a run was stored.

    Of a folder, what is wrong with a file is added to `faults`, and the others are looked at. Raises UsageError where
    the word means nothing, or its one file cannot be read.
    """
    import msgspec

    from torchstone.analysis.summary import summarize
    from torchstone.plugins.checking import look
    from torchstone.storage import foreign
    from torchstone.storage.importing import candidates
    from torchstone.storage.query import entry_of, locate, read_run

    among = Path(word).is_dir()
    paths = list(candidates(Path(word), folder)) if among else [locate(folder, word)]
    if not paths:
        raise UsageError(f"{word}: no results in this folder; `torchstone list importers` names what is known")
    for path in paths:
        try:
            found = read_run(path)
        except UsageError as fault:
            if not among:
                raise
            faults.append(str(fault))
            continue
        if foreign.recognised(path) is None:  # what another tool wrote was looked at as it was read
            found = msgspec.structs.replace(found, findings=tuple(look(found)))
        yield summarize(entry_of(found, path))


def _document(summary: RunSummary) -> Mapping[str, object]:
    fields = ("case_id", "workload", "configuration", "placement", "verdict", "findings")
    cases = [{field: getattr(case, field) for field in fields} for case in summary.cases]
    about = {"run_id": summary.run_id, "name": summary.name, "file": summary.record, "command": summary.command}
    return {**about, "cases": cases, "findings": summary.findings}
