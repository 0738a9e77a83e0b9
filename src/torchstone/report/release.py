"""A release of stored runs: a folder, or a zip, that people can read, cite, check and measure again.

The same runs give the same bytes. It is written beside its place and then moved, so that there is a whole one or none.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.own_files import flush_folder, write_whole
from torchstone.core.units import plain
from torchstone.report.carried import files_of_run
from torchstone.report.documents.release import DocumentOf, files_showing, readme
from torchstone.report.rendering import renderer
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import current_language
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
    return {**carried, **files_showing(summary, document_of(summary), current_language(), carried, left_out)}


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
