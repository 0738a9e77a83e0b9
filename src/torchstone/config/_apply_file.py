"""The user's own file: read with care, kept beside itself as a backup, and replaced whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.positions import Layout
from torchstone.config.source import FORMATS, MOST_BYTES, decoded, parsed
from torchstone.core.errors import TorchstoneError, UsageError, unknown
from torchstone.core.flushing import flush_folder

_MOST_BACKUPS = 1000
_BOM = b"\xef\xbb\xbf"


class Configuration(msgspec.Struct, frozen=True):
    """A configuration file as it was read. `text` is without its byte order mark, its line ends as they are."""

    path: Path
    raw: bytes
    text: str
    data: Mapping[Any, Any]
    layout: Layout

    @property
    def suffix(self) -> str:
        """Return the kind of file: .yaml, .yml, .json, .toml."""
        return self.path.suffix.lower()

    def encoded(self, text: str) -> bytes:
        """Return a changed text as the bytes of the file."""
        return (_BOM if self.raw.startswith(_BOM) else b"") + text.encode("utf-8")


def read_writable(path: Path) -> Configuration:
    """Read a file that is to be changed. Raises UsageError, one line, for one that cannot be read or replaced."""
    if path.suffix.lower() not in FORMATS:
        raise unknown("kind of file", path.suffix or path.name, FORMATS)
    try:
        _check_writable(path)
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES} bytes: too large for a configuration")
    text = decoded(raw, path)
    data, layout = parsed(text, path)
    if not isinstance(data, dict):
        raise UsageError(f"{path}:1:1: must contain a mapping of names to values")
    return Configuration(path, raw, text, data, layout)


def _check_writable(path: Path) -> None:
    if path.is_symlink():
        raise UsageError(f"{path} is a symbolic link: name the file itself, {path.resolve()}")
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise UsageError(f"{path} is {'a folder' if stat.S_ISDIR(facts.st_mode) else 'not a file'}: name a file")
    # Root may write anything, so the bits are asked, too: who took them away did not want the file changed.
    if not facts.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise UsageError(f"{path} is read-only: chmod u+w it, or apply to a copy")
    if os.geteuid() not in (0, facts.st_uid):
        raise UsageError(f"{path} belongs to another user and cannot be replaced: apply to a copy")
    folder = path.parent
    if not folder.stat().st_mode & 0o222:
        raise UsageError(f"{folder} is read-only: the backup goes there; apply to a copy elsewhere")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise UsageError(f"{folder} cannot be written ({fault.strerror}): apply to a copy elsewhere") from None


def replace(path: Path, before: bytes, after: bytes) -> Path:
    """Replace a file, keep what it held beside it, and return the backup's path.

    The backup is on disk before the file changes, and the change is one rename: readers see the old or the new file.
    Mode and owner stay. Raises UsageError if the file is not what it was, TorchstoneError where the disk refuses.
    """
    try:
        _check_writable(path)
        if path.read_bytes() != before:
            raise UsageError(f"{path} was changed meanwhile: nothing written; try again")
        facts = path.stat()
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.chown(name, facts.st_uid, facts.st_gid)
                _write(file, after)
            shutil.copymode(path, name)
            backup = _back_up(path, before)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        flush_folder(path.parent)
    except OSError as fault:
        raise TorchstoneError(f"{path} not changed: {fault.strerror}") from None
    return backup


def _back_up(path: Path, before: bytes) -> Path:
    for number in range(_MOST_BACKUPS):
        backup = path.with_name(f"{path.name}.bak{f'.{number}' if number else ''}")
        try:
            with backup.open("xb") as file:
                _write(file, before)
        except FileExistsError:
            continue
        except OSError:
            backup.unlink(missing_ok=True)
            raise
        shutil.copystat(path, backup)
        return backup
    raise UsageError(f"{path}.bak and {_MOST_BACKUPS - 1} more backups exist already: remove some; nothing written")


def _write(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
