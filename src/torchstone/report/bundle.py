"""What is to be verified, as files by their names: from an HTML report, a folder, or a zip file of one.

It may be a stranger's: no link is followed, no name leaves the bundle, and what is read is bounded in number and size.
"""

from __future__ import annotations

import io
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import Run
from torchstone.report.attached import MOST_PAGE_BYTES, embedded
from torchstone.report.carried import RECORDS
from torchstone.storage.manifest import MANIFEST, disagreements, files_below, read_manifest, sums_of
from torchstone.storage.record_reader import read_bounded, read_record

MOST_FILES = 10_000
MOST_BYTES = 2**30  # of all files of a bundle, unpacked
_LEAST_MOST, _MOST_PACKED = 64 * 2**20, 200  # a zip file may unpack to so much, or so many times its own size
_CHUNK = 2**20
_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"


class Bundle(msgspec.Struct, frozen=True):
    """Files by name, as in a release. `page`: the HTML that carried them; `faults`: what its hashes say is wrong."""

    name: str
    files: Mapping[str, bytes]
    page: bytes | None = None
    faults: tuple[str, ...] = ()

    @property
    def records(self) -> list[str]:
        """The names of the records in it."""
        return [name for name in self.files if name.startswith(f"{RECORDS}/") and name.endswith(".jsonl")]


def read_bundle(path: Path) -> Bundle:
    """Return the bundle at a path.

    Raises UsageError where it is none, cannot be read, exceeds the bounds above, or has a name or a link that leads out
    of it.
    """
    if path.is_dir():
        return Bundle(str(path), dict(_of_folder(path)))
    with read_bounded(path) as file:
        beginning = file.read(len(_ZIP))
        file.seek(0)
        if beginning in (_ZIP, _EMPTY_ZIP):
            return Bundle(str(path), _inner(dict(_of_zip(path))))
        if beginning[:1] == b"{":
            raise UsageError(f"{path} is no report: give report.html, a folder or a zip of `torchstone release`")
        page = file.read(MOST_PAGE_BYTES + 1)
    try:
        found = embedded(page)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    if not found:
        raise UsageError(f"{path} carries no record: only HTML reports and releases do")
    wrong = [one.attachment.name for one in found if not one.agrees]
    faults = tuple(f"{name}: its SHA-256 is not the one that the page states" for name in wrong)
    return Bundle(str(path), {one.attachment.name: one.attachment.content for one in found}, page, faults)


def _of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    top = [(MANIFEST, folder / MANIFEST)] if (folder / MANIFEST).is_file() else []
    for count, (name, path) in enumerate((*top, *files_below(folder)), 1):
        _bounded(str(folder), count, left, MOST_BYTES)
        with read_bounded(path) as file:
            content = file.read(left + 1)
        left -= len(content)
        _bounded(str(folder), count, left, MOST_BYTES)
        yield name, content


def _of_zip(path: Path) -> Iterator[tuple[str, bytes]]:
    left = most = min(MOST_BYTES, max(_LEAST_MOST, _MOST_PACKED * path.stat().st_size))
    seen: set[str] = set()
    try:
        with zipfile.ZipFile(path) as packed:
            for count, info in enumerate(packed.infolist(), 1):
                _bounded(str(path), count, left, most)
                if info.is_dir():
                    continue
                name = _safe(path, info)
                if name in seen:
                    raise UsageError(f"{path}: {name!r} is in it twice")
                seen.add(name)
                content = _member(packed, info, left)
                left -= len(content)
                _bounded(str(path), count, left, most)
                yield name, content
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as fault:
        raise UsageError(f"{path}: not a zip file that can be read ({fault})") from None


def _member(packed: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """Return a member, and of one that is larger than `most` one byte more: what its header says is not believed."""
    found = io.BytesIO()  # whose bytes are handed over as they are: parts and what they are joined to are twice as much
    left = most + 1
    with packed.open(info) as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            found.write(chunk)
            left -= len(chunk)
    return found.getvalue()


def _safe(path: Path, info: zipfile.ZipInfo) -> str:
    """Return the name of a member. Raises UsageError for one that leads out, a link, and one that is encrypted."""
    name = info.filename
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or ":" in parts[0]:
        raise UsageError(f"{path}: the name {name[:80]!r} leads out of the bundle")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise UsageError(f"{path}: {name[:80]!r} is a symbolic link")
    if info.flag_bits & 1:
        raise UsageError(f"{path}: {name[:80]!r} is encrypted")
    return str(PurePosixPath(name))


def _bounded(name: str, count: int, left: int, most: int) -> None:
    if count > MOST_FILES:
        raise UsageError(f"{name}: more than {MOST_FILES} files")
    if left < 0:
        raise UsageError(f"{name}: more than {most} bytes in all")


def _inner(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a zip without the one folder that all of them are in, if they are."""
    tops = {PurePosixPath(name).parts[0] for name in files}
    if len(tops) != 1 or tops == {RECORDS} or any(len(PurePosixPath(name).parts) < 2 for name in files):
        return files
    (top,) = tops
    return {name.removeprefix(f"{top}/"): content for name, content in files.items()}


def sum_faults(bundle: Bundle) -> Iterator[str]:
    """Yield in a line each which files are not those of the bundle's manifest."""
    if MANIFEST not in bundle.files:
        yield f"{MANIFEST} is missing"
        return
    try:
        stated = read_manifest(bundle.files[MANIFEST])
    except UsageError as fault:
        yield str(fault)
        return
    yield from disagreements(stated, sums_of({name: data for name, data in bundle.files.items() if name != MANIFEST}))


def runs_of(bundle: Bundle) -> list[Run]:
    """Return the runs whose records are in a bundle.

    Raises UsageError where there is none, where one cannot be read, and where a file is not as it was written.
    """
    if faults := [*bundle.faults, *sum_faults(bundle)]:
        raise UsageError(f"{bundle.name}: {faults[0]}; `torchstone verify {bundle.name}` says what else is wrong")
    if not bundle.records:
        raise UsageError(f"{bundle.name} has no record")
    found = []
    with tempfile.TemporaryDirectory(prefix="torchstone-bundle-") as folder:
        path = Path(folder) / "record.jsonl"
        for name in bundle.records:
            path.write_bytes(bundle.files[name])
            try:
                found.append(read_record(path))
            except UsageError as fault:
                raise UsageError(str(fault).replace(str(path), f"{bundle.name}: {name}")) from None
    return found
