"""Check results, stored ones or files of other tools, for measurement errors: a verdict for each case, and why."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.cli._place import add_folder, folder_of

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
    from torchstone.analysis.checked_runs import checked_runs
    from torchstone.core.errors import ExitCode, UsageError

    faults: list[str] = []
    checked = [summary for word in options.runs for summary in checked_runs(folder_of(options), word, faults)]
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


def _document(summary: RunSummary) -> Mapping[str, object]:
    cases = [
        {
            "case_id": case.case_id,
            "workload": case.workload,
            "configuration": case.configuration,
            "placement": case.placement,
            "verdict": case.verdict,
            "findings": case.findings,
        }
        for case in summary.cases
    ]
    return {
        "run_id": summary.run_id,
        "name": summary.name,
        "file": summary.record,
        "command": summary.command,
        "cases": cases,
        "findings": summary.findings,
    }
