"""Manifests: SHA256SUMS of the files below a folder, in the format that `sha256sum -c` reads."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.own_files import flush_folder, write_whole
from torchstone.storage.database import INDEX_FILE, SUFFIXES

MANIFEST = "SHA256SUMS"
MOST_FILES = 100_000
# Of an output folder: rebuilt from the records, and written by whoever looks into it.
_INDEX = tuple(f"{INDEX_FILE}{suffix}" for suffix in SUFFIXES)
_MOST_BYTES = 64 * 2**20  # of a manifest that is read
_CHUNK = 2**20
_LINE = re.compile(rb"(\\?)([0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}  # as coreutils writes names, from its version 9.0 on
_MEANT = {escaped: plain for plain, escaped in _ESCAPES.items()}


def sums_of(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each content in hex, by name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def manifest_bytes(sums: Mapping[str, str]) -> bytes:
    """Return SHA256SUMS: a line a file, by name. A name that would break its line is escaped, as coreutils does."""
    return b"".join(_line(os.fsencode(name), sums[name]) for name in sorted(sums))


def _line(name: bytes, digest: str) -> bytes:
    escaped = re.sub(rb"[\\\n\r]", lambda found: _ESCAPES[found[0]], name)
    return (b"\\" if escaped != name else b"") + f"{digest}  ".encode() + escaped + b"\n"


def read_manifest(data: bytes) -> dict[str, str]:
    """Return name → SHA-256 in hex. Raises UsageError naming the line that is none, or a name that comes twice."""
    found: dict[str, str] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise UsageError(f"{MANIFEST}:{number}: not a line of sha256sum (64 hex digits, two spaces, a name)")
        name = re.sub(rb"\\[\\nr]", lambda m: _MEANT[m[0]], parts[3]) if parts[1] else parts[3]
        if (known := os.fsdecode(name)) in found:
            raise UsageError(f"{MANIFEST}:{number}: {known!r} is listed twice")
        found[known] = parts[2].decode().lower()
    return found


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name with / between its parts, path) of the plain files below a folder, by name.

    What is left out at its top: a manifest, and the index of an output folder.

    Raises UsageError for a folder that is none, for a symbolic link or anything else that is no plain file (a link may
    point anywhere), and for more than MOST_FILES.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    found: list[tuple[str, Path]] = []
    for top, folders, names in os.walk(folder, onerror=_unreadable):
        for name in sorted((*folders, *names)):
            path = Path(top) / name
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a plain file"
                raise UsageError(f"{path} is {kind}: only plain files can be listed; remove or copy it")
            found.append((path.relative_to(folder).as_posix(), path))
            if len(found) > MOST_FILES:
                raise UsageError(f"{folder}: more than {MOST_FILES} files")
    yield from sorted(one for one in found if one[0] not in (MANIFEST, *_INDEX))


def _unreadable(fault: OSError) -> None:
    raise UsageError(f"cannot read {fault.filename}: {fault.strerror}")


def write_manifest(folder: Path) -> tuple[Path, int]:
    """Write the manifest of a folder into it, whole or not at all; return its path and how many files it lists.

    Raises UsageError as `files_below`, for an empty folder, and where a file cannot be read or the manifest written.
    """
    sums = {name: _digest(path) for name, path in files_below(folder)}
    if not sums:
        raise UsageError(f"{folder} has no files: nothing to list")
    target = folder / MANIFEST
    try:
        write_whole(target, manifest_bytes(sums))
        flush_folder(folder)
    except OSError as fault:
        raise UsageError(f"cannot write {target}: {fault.strerror}") from None
    return target, len(sums)


def check_folder(folder: Path) -> tuple[list[str], int]:
    """Return what does not agree with the folder's manifest, a line each, and how many files it lists.

    Raises UsageError where there is no manifest, or it is none.
    """
    path = folder / MANIFEST
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(f"{path} is not a plain file")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{folder} has no {MANIFEST}; `torchstone manifest {folder}` writes one") from None
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: more than {_MOST_BYTES} bytes")
    stated = read_manifest(data)
    there = dict(files_below(folder))
    return list(disagreements(stated, {name: _digest(path) for name, path in there.items()})), len(stated)


def disagreements(stated: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Yield in a line each which files are changed, missing, or not listed. Both: name → SHA-256."""
    for name, digest in stated.items():
        if name not in found:
            yield f"{name!r} is listed in {MANIFEST} and missing"
        elif found[name] != digest:
            yield f"{name!r} has changed: its SHA-256 is not the one in {MANIFEST}"
    for name in sorted(found.keys() - stated.keys()):
        yield f"{name!r} is not listed in {MANIFEST}"


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    return digest.hexdigest()
