"""What a release contains, and its README as a Document: how to read, check, repeat and cite it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import encode
from torchstone.report.carried import CARRYING, carrying
from torchstone.report.document import (
    Column,
    CommandLine,
    Document,
    Fields,
    Part,
    Renderer,
    Role,
    Section,
    Table,
    Text,
    paragraphs,
)
from torchstone.report.pictures import drawn, with_links, without_charts
from torchstone.report.rendering import FOR_PROGRAMS, formats, rendered_files, renderer
from torchstone.report.translation.documents import translated

REPORTS, FIGURES, ENVIRONMENT = "reports", "figures", "environment"  # folders
_LINKING = ".md"  # of the format that links its pictures: they are files beside it
_NO_PACKAGES = ("python", "cuda", "rocm", "cudnn")  # of the software of a machine, what pip cannot install

DocumentOf = Callable[[RunSummary], Document]


def files_showing(
    summary: RunSummary, document: Document, language: str, carried: Mapping[str, bytes], left_out: dict[str, None]
) -> dict[str, bytes]:
    """Return the files of a release that show a run, by path: its reports, figures, environment.

    `document`: of its report, in English; `carried`: the record and its claims. Adds to `left_out` in a line each what
    cannot be made here, and why.
    """
    shown = translated(document, language)
    files, figures = dict(environment_files(summary)), dict[str, bytes]()
    try:
        figures.update({f"{FIGURES}/{summary.run_id}/{name}": data for name, data in drawn(shown, (".svg",)).items()})
    except MissingError as fault:
        left_out[f"figures: {fault}"] = None
    for name in formats():
        try:
            one = renderer(name)
            told = document if name in FOR_PROGRAMS else shown
            files.update(_report_files(one, told, summary.run_id, carried, pictured=bool(figures)))
        except (MissingError, ImportError) as fault:
            left_out[f"reports as {name}: {fault}"] = None
    return {**files, **figures}


def _report_files(
    one: Renderer, document: Document, run_id: str, carried: Mapping[str, bytes], *, pictured: bool
) -> Mapping[str, bytes]:
    """Return the report of a run in one format, by path.

    `carried`: the record and its claims, for formats that carry files; `pictured`: whether the release has figures.
    Raises MissingError where a library of the format is not installed.
    """
    shown = document
    if one.suffix in CARRYING:
        shown = carrying(document, carried)
    elif one.suffix == _LINKING:
        shown = with_links(document, f"../{FIGURES}/{run_id}") if pictured else without_charts(document)
    return {f"{REPORTS}/{path}": data for path, data in rendered_files(one, shown, run_id).items()}


def environment_files(summary: RunSummary) -> Mapping[str, bytes]:
    """Return what was recorded of machine, software and procedure, by path; versions also as pip reads them."""
    about = {
        "run_id": summary.run_id,
        "command": summary.command,
        "procedure": summary.procedure,
        "machine": summary.machine,
    }
    return {
        f"{ENVIRONMENT}/{summary.run_id}.json": msgspec.json.format(encode(about), indent=1) + b"\n",
        f"{ENVIRONMENT}/{summary.run_id}-requirements.txt": _text(tuple(_requirements(summary))),
    }


def _requirements(summary: RunSummary) -> Iterator[str]:
    versions = {name: version for name, version in summary.machine.software.items() if version is not None}
    yield from (f"# {name} {versions[name]}" for name in _NO_PACKAGES if name in versions)
    yield from (f"{name}=={version}" for name, version in sorted(versions.items()) if name not in _NO_PACKAGES)


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{' '.join(line.split())}\n" for line in lines).encode()


# ── the README ──────────────────────────────────────────────────────────────────────────────────────────────


_FOLDERS = {
    "reports": "a report of each run in every format",
    "figures": "the charts of the reports",
    "records": "the record of each run: plan, seed, machine, and every raw value; all else is computed from it",
    "claims": "every figure, verdict and finding of the reports, as JSON",
    "environment": "machine, software and procedure of each run, as they were recorded",
}
_OWN = "py:"  # what the name of a model, or of data, begins with that is somebody's own code


def readme(summaries: Sequence[RunSummary], title: str, names: Sequence[str], left_out: Sequence[str]) -> Document:
    """Return the page. `names`: of the other files of the release; `left_out`: what is missing, and why."""
    return Document(title, tuple(_parts(summaries, names, left_out)))


def _parts(summaries: Sequence[RunSummary], names: Sequence[str], left_out: Sequence[str]) -> Iterator[Part]:
    cases = sum(len(one.cases) for one in summaries)
    yield Text(
        f"{count_of(len(summaries), 'run')}, {count_of(cases, 'case')}, measured by torchstone, with the records that "
        "every figure follows from.",
        Role.HEADLINE,
    )
    yield Table.of(
        Column("run", tuple(one.run_id for one in summaries), left=True),
        Column("name", tuple(one.name for one in summaries), left=True),
        Column("measured", tuple(one.started_utc for one in summaries), left=True),
        Column("on", tuple(map(_place, summaries)), left=True),
        Column("cases", tuple(str(len(one.cases)) for one in summaries)),
    )
    tops = {name.partition("/")[0] for name in names}
    there = tuple((folder, what) for folder, what in _FOLDERS.items() if folder in tops)
    missing = (Text("Not in this release:"), *paragraphs(left_out, Role.DETAIL)) if left_out else ()
    yield Section("To read", (Fields(there), *missing))
    yield Section(
        "To check",
        (
            Text("Whether every file is as it was written:"),
            CommandLine("sha256sum -c SHA256SUMS"),
            Text("Whether every figure, verdict and text of the reports follows from the records:"),
            CommandLine("torchstone verify ."),
        ),
    )
    yield Section("To measure it again", tuple(_again(summaries)))
    yield Section("To cite", (Text("See CITATION.cff."),))


def _again(summaries: Sequence[RunSummary]) -> Iterator[Part]:
    yield Text("On your machine; the answer is equivalent, different or inconclusive, with what else differs:")
    yield CommandLine("torchstone reproduce .")
    workloads = [case.workload for one in summaries for case in one.cases]
    own = sorted({word for w in workloads for word in (w.model, w.data) if word.startswith(_OWN)})
    if own:
        yield Text("A record does not contain the code of these; put their files into a folder, and add --code FOLDER:")
        yield from paragraphs(own, Role.DETAIL)
    yield Text("They were measured by:")
    yield from (CommandLine(_typed(one.command)) for one in summaries)


def _typed(command: Sequence[str]) -> str:
    words = command if command[:1] == ("torchstone",) else ("torchstone", *command)
    return shlex.join(words)


def count_of(number: int, what: str) -> str:
    """Return "1 run", "1,024 runs"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _place(run: RunSummary) -> str:
    used = {str(case.placement) for case in run.cases}
    names = [d.name for d in run.machine.devices if str(Placement(d.kind, d.index)) in used]
    return ", ".join((run.machine.host.hostname, *names))
