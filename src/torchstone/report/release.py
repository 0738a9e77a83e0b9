"""A release of stored runs: a folder, or a zip, that people can read, cite, check and measure again.

The same runs give the same bytes. It is written beside its place and then moved, so that there is a whole one or none.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.charts.drawing import as_svg
from torchstone.core.errors import MissingError, UsageError
from torchstone.core.flushing import flush_folder
from torchstone.core.schema.codec import encode
from torchstone.report.carried import attachments, claim_files, record_bytes
from torchstone.report.citation import citation
from torchstone.report.document import Chart, Document, Part, Section
from torchstone.report.documents.release import readme
from torchstone.report.rendering import formats, renderer
from torchstone.report.verification import REPORTS, DocumentOf
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of

_NO_PACKAGES = ("python", "cuda", "rocm", "cudnn")  # of the software of a machine, what pip cannot install
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip file: the time of every member


class Release(msgspec.Struct, frozen=True):
    """The files of a release by name. `left_out`: what is not in it, and why, a line each."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...]


def release_of(summaries: Sequence[RunSummary], document_of: DocumentOf, title: str, authors: Sequence[str]) -> Release:
    """Return the release of stored runs: `document_of` makes the Document of a report.

    Raises UsageError for a run that comes twice, and one whose record cannot be read.
    """
    ids = [summary.run_id for summary in summaries]
    if len(set(ids)) < len(ids):
        raise UsageError(f"a run is named twice: {', '.join(sorted({one for one in ids if ids.count(one) > 1}))}")
    files: dict[str, bytes] = {}
    left_out: dict[str, None] = {}
    for summary in summaries:
        own = claim_files(summary, record_bytes(summary))
        files.update(own)
        files.update(_environment(summary))
        carried = attachments({**own, MANIFEST: manifest_bytes(sums_of(own))})
        document = msgspec.structs.replace(document_of(summary), attachments=carried)
        for name, content in (*_reports(summary, document, left_out), *_figures(summary, document, left_out)):
            files[name] = content
    files["CITATION.cff"] = citation(summaries, title, authors)
    page = readme(summaries, title, sorted(files), tuple(left_out))
    files["README.md"] = renderer("md").render(page)
    files[MANIFEST] = manifest_bytes(sums_of(files))
    return Release(dict(sorted(files.items())), tuple(left_out))


def _reports(summary: RunSummary, document: Document, left_out: dict[str, None]) -> Iterator[tuple[str, bytes]]:
    """Yield the report of a run in every format that can be written here."""
    for name in formats():
        try:
            one = renderer(name)
            yield f"{REPORTS}/{summary.run_id}{one.suffix}", one.render(document)
        except MissingError as fault:
            left_out[f"reports as {name}: {fault}"] = None


def _figures(summary: RunSummary, document: Document, left_out: dict[str, None]) -> Iterator[tuple[str, bytes]]:
    """Yield the charts of a Document as SVG."""
    for chart in _charts(document.parts):
        try:
            yield f"figures/{summary.run_id}/{_file_name(chart.name)}.svg", as_svg(chart.picture).encode()
        except MissingError as fault:
            left_out[f"figures: {fault}"] = None
            return


def _charts(parts: Sequence[Part]) -> Iterator[Chart]:
    for part in parts:
        if isinstance(part, Chart):
            yield part
        elif isinstance(part, Section):
            yield from _charts(part.parts)


def _file_name(name: str) -> str:
    """Return a name without what would make it another place: it may have a stranger's words in it."""
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:100] or "chart"


def _environment(summary: RunSummary) -> Iterator[tuple[str, bytes]]:
    """Yield what was recorded of the machine, its software and the way to measure; versions also as pip reads them."""
    about = {
        "run_id": summary.run_id, "command": summary.command, "procedure": summary.procedure,
        "machine": summary.machine,
    }  # fmt: skip
    whole = msgspec.json.format(encode(about), indent=1)
    yield f"environment/{summary.run_id}.json", whole + b"\n"
    versions = {name: version for name, version in summary.machine.software.items() if version is not None}
    lines = [f"{name}=={version}" for name, version in sorted(versions.items()) if name not in _NO_PACKAGES]
    told = [f"# {name} {versions[name]}" for name in _NO_PACKAGES if name in versions]
    yield f"environment/{summary.run_id}-requirements.txt", _text((*told, *lines))


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{' '.join(line.split())}\n" for line in lines).encode()


def write_release(release: Release, output: Path) -> Path:
    """Write a release as a folder, or as a zip file where that is what `output` is called; return its path.

    Raises UsageError where there is something already, or it cannot be written. Then nothing of it is left.
    """
    if output.suffix.lower() == ".zip":
        return _write_zip(release, output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"--output {output} exists and is not an empty folder; name another one")
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
        os.replace(beside, output)  # of an empty folder: takes its place
        flush_folder(parent)
    except OSError as fault:
        raise UsageError(f"cannot write {output}: {fault.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return output


def _write_zip(release: Release, output: Path) -> Path:
    if output.exists():
        raise UsageError(f"--output {output} exists already; name another file")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, content in release.files.items():
            info = zipfile.ZipInfo(f"{output.stem}/{name}", _EARLIEST)
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            file.writestr(info, content)
    beside = output.with_name(f".{output.name}.writing")
    try:
        output.absolute().parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(packed.getvalue())
        beside.replace(output)
    except OSError as fault:
        beside.unlink(missing_ok=True)
        raise UsageError(f"cannot write {output}: {fault.strerror}") from None
    return output
