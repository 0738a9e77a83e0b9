"""The files of a release that follow from the record of a run: `release` writes them, `verify` writes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError
from torchstone.core.schema.codec import encode
from torchstone.report.carried import CARRYING, carrying
from torchstone.report.document import Document
from torchstone.report.pictures import beside, drawn, without_charts
from torchstone.report.rendering import FOR_PROGRAMS, Renderer, files_of, formats, renderer
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
        figures.update(figure_files(shown, summary.run_id))
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
        shown = beside(document, f"../{FIGURES}/{run_id}") if pictured else without_charts(document)
    return {f"{REPORTS}/{path}": data for path, data in files_of(one, shown, run_id).items()}


def figure_files(document: Document, run_id: str) -> Mapping[str, bytes]:
    """Return the pictures of a report as SVG, by path. Raises MissingError without vl-convert."""
    return {f"{FIGURES}/{run_id}/{name}": data for name, data in drawn(document, (".svg",)).items()}


def environment_files(summary: RunSummary) -> Mapping[str, bytes]:
    """Return what was recorded of machine, software and procedure, by path; versions also as pip reads them."""
    about = {
        "run_id": summary.run_id, "command": summary.command, "procedure": summary.procedure,
        "machine": summary.machine,
    }  # fmt: skip
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
