"""Check results, stored ones or files of other tools, for measurement errors: a verdict for each case, and why."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, folder_of
from torchstone.cli._table import plain, terminal_width

if TYPE_CHECKING:  # a summary brings the index, which --help does not need
    from torchstone.analysis.summary import RunSummary
    from torchstone.core.schema.estimate import Finding

_MOST_CASES = 12
_QUANTITY = re.compile(
    r"-?\d[\d.,]*(e[+-]?\d+)?( ([nµm]?s|min|[KMGT]?i?B|[kmµ]?[JW]|[kMG]?Hz|[MGTP]?FLOP(/s)?|%|×)\b)?"
)
_WORST_FIRST = ("error", "warning", "info")
_VERDICTS = ("INVALID", "SUSPECT", "VALID")


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
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Look, print, and return 1 if --strict and anything is doubtful."""
    from torchstone.core.errors import ExitCode, UsageError

    faults: list[str] = []
    checked = [summary for word in options.runs for summary in _checked(folder_of(options), word, faults)]
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"runs": [_document(summary) for summary in checked]})
    else:
        for summary in checked:
            _print(summary, every=options.full)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UsageError(f"{faults[0]}{more}; the other files were checked")
    believed = all(summary.cases and all(case.verdict == "VALID" for case in summary.cases) for summary in checked)
    return ExitCode.NO if options.strict and not believed else ExitCode.DONE


def _checked(folder: Path, word: str, faults: list[str]) -> Iterator[RunSummary]:
    """Yield what a word means, looked at anew: a check may have been written since it was stored.

    Of a folder, what is wrong with a file is added to `faults`, and the others are looked at.
    """
    import msgspec

    from torchstone.analysis.summary import summarize
    from torchstone.core.errors import UsageError
    from torchstone.plugins.checking import look
    from torchstone.storage import foreign
    from torchstone.storage.importing import candidates
    from torchstone.storage.query import entry_of, locate, read_run

    paths = list(candidates(Path(word), folder)) if Path(word).is_dir() else [locate(folder, word)]
    if not paths:
        raise UsageError(f"{word}: no results in this folder; `torchstone list importers` lists the known formats")
    for path in paths:
        try:
            found = read_run(path)
        except UsageError as fault:
            if not Path(word).is_dir():
                raise
            faults.append(str(fault))
            continue
        if foreign.recognised(path) is None:  # what another tool wrote was looked at as it was read
            found = msgspec.structs.replace(found, findings=tuple(look(found)))
        yield summarize(entry_of(found, path))


def _document(summary: RunSummary) -> Mapping[str, object]:
    cases = [
        {
            "case_id": case.case_id, "workload": case.workload, "configuration": case.configuration,
            "placement": case.placement, "verdict": case.verdict, "findings": case.findings,
        }
        for case in summary.cases
    ]  # fmt: skip
    return {
        "run_id": summary.run_id, "name": summary.name, "file": summary.record, "command": summary.command,
        "cases": cases, "findings": summary.findings,
    }  # fmt: skip


def _print(summary: RunSummary, *, every: bool) -> None:
    """Print the verdicts, the worst first, and below them each finding once with the cases that it concerns."""
    from torchstone.cli._findings import labels

    counts = Counter(str(case.verdict) for case in summary.cases)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    print(plain(f"{summary.name}: run {summary.run_id}, {Path(summary.record).name}: {told or 'no cases'}"))
    names = {case_id: label.rstrip(", ") for case_id, label in labels(summary.cases).items()}
    ordered = sorted(summary.cases, key=lambda case: _VERDICTS.index(case.verdict))
    shown = ordered if every else ordered[:_MOST_CASES]
    width = max((len(names[case.case_id]) for case in shown), default=0)
    for case in shown:
        why = ", ".join(dict.fromkeys(f.check for f in case.findings if f.severity != "info"))
        failed = "" if any(t.outcome.status == "ok" for t in case.trials) else "no successful trial"
        print(plain(f"  {case.verdict:<8} {names[case.case_id]:<{width}}  {why or failed}").rstrip())
    if len(ordered) > len(shown):
        print(f"  … and {len(ordered) - len(shown)} more: --full")
    for finding, cases in _grouped(summary, every=every):
        _tell(finding, [names[case] for case in cases], len(summary.cases))
    print()


def _grouped(summary: RunSummary, *, every: bool) -> Iterator[tuple[Finding, Sequence[str]]]:
    """Yield each check's finding with its Cases, errors first; messages that differ in their numbers are one."""
    found: dict[tuple[str, str, str], list[tuple[Finding, str]]] = {}
    for case in summary.cases:
        for finding in case.findings:
            key = (
                str(finding.severity),
                finding.check,
                finding.message if every else _QUANTITY.sub("#", finding.message),
            )
            found.setdefault(key, []).append((finding, case.case_id))
    for finding in summary.findings:
        found.setdefault((str(finding.severity), finding.check, finding.message), []).append((finding, ""))
    for severity in _WORST_FIRST:
        for key, seen in found.items():
            if key[0] == severity:
                yield seen[0][0], list(dict.fromkeys(case_id for _, case_id in seen if case_id))


def _tell(finding: Finding, names: Sequence[str], of: int) -> None:
    who = "run" if not names else names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if len(names) == of > 1:
        who = "both cases" if of == 2 else f"all {of} cases"
    lines = [f"{finding.severity} {finding.check}: {who}", f"{finding.message}", f"→ {finding.advice}"]
    print()
    for indent, line in zip(("", "  ", "  "), lines, strict=True):
        print(textwrap.fill(plain(line), terminal_width(), initial_indent=indent, subsequent_indent="    "))
