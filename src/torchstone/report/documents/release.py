"""The README of a release as a Document: what is in it, how to read, check, repeat and cite it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.case import Placement
from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Section, Table, Text, paragraphs

_FOLDERS = {
    "reports": "a report of each run in every format",
    "figures": "the charts of the reports",
    "records": "the record of each run: plan, seed, machine, and every raw value; all else is computed from it",
    "claims": "every figure, verdict and finding of the reports, as JSON",
    "environment": "machine, software and procedure of each run, as they were recorded",
}  # fmt: skip
_OWN = "py:"  # what the name of a model, or of data, begins with that is somebody's own code


def readme(summaries: Sequence[RunSummary], title: str, names: Sequence[str], left_out: Sequence[str]) -> Document:
    """Return the page. `names`: of the other files of the release; `left_out`: what is missing, and why."""
    return Document(title, tuple(_parts(summaries, names, left_out)))


def _parts(summaries: Sequence[RunSummary], names: Sequence[str], left_out: Sequence[str]) -> Iterator[Part]:
    cases = sum(len(one.cases) for one in summaries)
    yield Text(
        f"{_counted(len(summaries), 'run')}, {_counted(cases, 'case')}, measured by torchstone, with the records that "
        "every figure follows from.", Role.HEADLINE,
    )  # fmt: skip
    yield Table((
        Column("run", tuple(one.run_id for one in summaries), left=True),
        Column("name", tuple(one.name for one in summaries), left=True),
        Column("measured", tuple(one.started_utc for one in summaries), left=True),
        Column("on", tuple(map(_place, summaries)), left=True),
        Column("cases", tuple(str(len(one.cases)) for one in summaries)),
    ))  # fmt: skip
    tops = {name.partition("/")[0] for name in names}
    there = tuple((folder, what) for folder, what in _FOLDERS.items() if folder in tops)
    missing = (Text("Not in this release:"), *paragraphs(left_out, Role.DETAIL)) if left_out else ()
    yield Section("To read", (Facts(there), *missing))
    yield Section("To check", (
        Text("Whether every file is as it was written:"),
        Command("sha256sum -c SHA256SUMS"),
        Text("Whether every figure, verdict and text of the reports follows from the records:"),
        Command("torchstone verify ."),
    ))  # fmt: skip
    yield Section("To measure it again", tuple(_again(summaries)))
    yield Section("To cite", (Text("See CITATION.cff."),))


def _again(summaries: Sequence[RunSummary]) -> Iterator[Part]:
    yield Text("On your machine; the answer is equivalent, different or inconclusive, with what else differs:")
    yield Command("torchstone reproduce .")
    workloads = [case.workload for one in summaries for case in one.cases]
    own = sorted({word for w in workloads for word in (w.model, w.data) if word.startswith(_OWN)})
    if own:
        yield Text("A record does not contain the code of these; put their files into a folder, and add --code FOLDER:")
        yield from paragraphs(own, Role.DETAIL)
    yield Text("They were measured by:")
    yield from (Command(_typed(one.command)) for one in summaries)


def _typed(command: Sequence[str]) -> str:
    words = command if command[:1] == ("torchstone",) else ("torchstone", *command)
    return shlex.join(words)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _place(run: RunSummary) -> str:
    used = {str(case.placement) for case in run.cases}
    names = [d.name for d in run.machine.devices if str(Placement(d.kind, d.index)) in used]
    return ", ".join((run.machine.host.hostname, *names))
