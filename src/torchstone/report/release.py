"""A release of stored runs: a folder, or a zip, that people can read, cite, check and measure again.

The same runs give the same bytes. It is written beside its place and then moved, so that there is a whole one or none.
"""

from __future__ import annotations

import io
import re
import shlex
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.own_files import flush_folder, write_whole
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import encode
from torchstone.core.units import plain
from torchstone.report.carried import CARRYING, carrying, files_of_run
from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.pictures import drawn, with_links, without_charts
from torchstone.report.rendering import FOR_PROGRAMS, Renderer, files_of, formats, renderer
from torchstone.report.translation.documents import in_spoken_language, translated
from torchstone.report.translation.spoken import spoken
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip file: the time of every member


class Release(msgspec.Struct, frozen=True):
    """The files of a release by name. `left_out`: what is not in it, and why, a line each."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...]


def release_of(summaries: Sequence[RunSummary], document_of: DocumentOf, title: str, authors: Sequence[str]) -> Release:
    """Return the release of stored runs: `document_of` makes the Document of a report.

    Its texts are in the language that is spoken. Raises UsageError for a run that comes twice, and one whose record
    cannot be read.
    """
    ids = [summary.run_id for summary in summaries]
    if len(set(ids)) < len(ids):
        raise UsageError(f"a run is named twice: {', '.join(sorted({one for one in ids if ids.count(one) > 1}))}")
    files: dict[str, bytes] = {}
    left_out: dict[str, None] = {}
    for summary in summaries:
        files.update(_of_run(summary, document_of, left_out))
    files["CITATION.cff"] = citation(summaries, title, authors)
    page = readme(summaries, title, sorted(files), tuple(left_out))
    files["README.md"] = renderer("md").render(in_spoken_language(page))
    files[MANIFEST] = manifest_bytes(sums_of(files))
    return Release(dict(sorted(files.items())), tuple(left_out))


def _of_run(summary: RunSummary, document_of: DocumentOf, left_out: dict[str, None]) -> Mapping[str, bytes]:
    """Return the files of one run: its record, its claims, and what follows from them in the formats that are here."""
    carried = files_of_run(summary)
    return {**carried, **files_showing(summary, document_of(summary), spoken(), carried, left_out)}


def check_output(output: Path) -> None:
    """Raise UsageError where a release cannot go because something is there: known before the reports are made."""
    if not output.exists():
        return
    if _is_zip(output):
        raise UsageError(f"--output {output} exists already; name another file")
    if not output.is_dir() or any(output.iterdir()):
        raise UsageError(f"--output {output} exists and is not an empty folder; name another one")


def _is_zip(output: Path) -> bool:
    return output.suffix.lower() == ".zip"


def write_release(release: Release, output: Path) -> Path:
    """Write a release as a folder, or as a zip file where that is what `output` is called; return its path.

    Raises UsageError where there is something already, or it cannot be written. Then nothing of it is left.
    """
    check_output(output)
    if _is_zip(output):
        return _write_zip(release, output)
    parent = output.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{output.name}.writing-", dir=parent))
    except OSError as fault:
        raise UsageError(f"cannot write into {parent}: {fault.strerror}") from None
    try:
        for name, content in release.files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        beside.chmod(0o755)
        beside.replace(output)  # of an empty folder: takes its place
        flush_folder(parent)
    except OSError as fault:
        raise UsageError(f"cannot write {output}: {fault.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return output


def write_verified(files: Mapping[str, bytes], output: Path) -> Path:
    """Write the files that a record gives: a page alone as that file, others as a release; return the path.

    Raises UsageError as `write_release`.
    """
    if len(files) > 1:
        return write_release(Release({**files, MANIFEST: manifest_bytes(sums_of(files))}, ()), output)
    check_output(output)
    (page,) = files.values()
    try:
        return write_whole(output, page)
    except OSError as fault:
        raise UsageError(f"cannot write {output}: {fault.strerror}") from None


def _write_zip(release: Release, output: Path) -> Path:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in release.files.items():
            info = zipfile.ZipInfo(f"{output.stem}/{name}", _EARLIEST)
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            file.writestr(info, content)
    try:
        return write_whole(output, packed.getvalue())
    except OSError as fault:
        raise UsageError(f"cannot write {output}: {fault.strerror}") from None


# ── how to cite it ──────────────────────────────────────────────────────────────────────────────────────────


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def citation(summaries: Sequence[RunSummary], title: str, authors: Sequence[str]) -> bytes:
    """Return the file: title, authors, the day of the newest run, and the id of every run.

    Texts are in JSON's quotes, which YAML reads as they are.
    """
    lines = ["cff-version: 1.2.0", "message: If you use these results, please cite them.", "type: dataset"]
    lines += [f"title: {_quoted(title)}", "authors:"]
    lines += [f"  - name: {_quoted(author)}" for author in authors or ("the authors of these measurements",)]
    days = [found[0] for one in summaries if (found := _DAY.match(one.started_utc)) is not None]
    if days:
        lines.append(f"date-released: {_quoted(max(days))}")
    lines.append("identifiers:")
    for one in summaries:
        lines += ["  - type: other", f"    value: {_quoted(one.run_id)}", "    description: a run of torchstone"]
    lines += ["references:", "  - type: software", "    title: torchstone", "    authors:"]
    lines += ["      - name: The torchstone authors"]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return msgspec.json.encode(plain(text)).decode()


# ── the files that follow from a record ─────────────────────────────────────────────────────────────────────


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
        shown = with_links(document, f"../{FIGURES}/{run_id}") if pictured else without_charts(document)
    return {f"{REPORTS}/{path}": data for path, data in files_of(one, shown, run_id).items()}


def figure_files(document: Document, run_id: str) -> Mapping[str, bytes]:
    """Return the pictures of a report as SVG, by path. Raises MissingError without vl-convert."""
    return {f"{FIGURES}/{run_id}/{name}": data for name, data in drawn(document, (".svg",)).items()}


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
        f"{counted(len(summaries), 'run')}, {counted(cases, 'case')}, measured by torchstone, with the records that "
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
    yield Section("To read", (Facts(there), *missing))
    yield Section(
        "To check",
        (
            Text("Whether every file is as it was written:"),
            Command("sha256sum -c SHA256SUMS"),
            Text("Whether every figure, verdict and text of the reports follows from the records:"),
            Command("torchstone verify ."),
        ),
    )
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


def counted(number: int, what: str) -> str:
    """Return "1 run", "1,024 runs"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _place(run: RunSummary) -> str:
    used = {str(case.placement) for case in run.cases}
    names = [d.name for d in run.machine.devices if str(Placement(d.kind, d.index)) in used]
    return ", ".join((run.machine.host.hostname, *names))
