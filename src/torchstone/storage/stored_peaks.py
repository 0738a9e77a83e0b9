"""Stored peaks: one file per device, torch version and number of threads, in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError
from torchstone.core.schema.machine import Machine, Peaks

_MOST_BYTES = 1 << 20
_MOST_FILES = 1000


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where they lie: $TORCHSTONE_CACHE, else torchstone in $XDG_CACHE_HOME, else ~/.cache/torchstone."""
    own = environment.get("TORCHSTONE_CACHE")
    if own:
        return Path(own) / "peaks"
    # The XDG Base Directory Specification: a path that is not absolute is to be ignored.
    shared = Path(environment.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "torchstone" / "peaks"


def keep_peaks(peaks: Peaks, where: Path) -> Path:
    """Write them, in the place of older ones of the same device, torch and threads. Raises MissingError if it fails."""
    import tempfile

    machine = (peaks.hostname, peaks.processor, peaks.kind, peaks.index, peaks.device_name, peaks.uuid)
    identity = (*machine, peaks.torch, peaks.threads)
    name = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]
    path = where / f"{peaks.kind}-{name}.json"
    try:
        where.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=where, suffix=".writing")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(peaks))
        Path(temporary).replace(path)
    except OSError as fault:
        raise MissingError(f"the peaks cannot be stored in {where}: {fault.strerror}; set TORCHSTONE_CACHE") from None
    return path


def kept(machine: Machine, where: Path) -> tuple[Peaks, ...]:
    """Return those of this Machine's devices under its torch, newest first. A file that cannot be read is not there."""
    found = [peaks for path in sorted(where.glob("*.json"))[:_MOST_FILES] if (peaks := _read(path)) is not None]
    found.sort(key=lambda peaks: peaks.measured_utc, reverse=True)
    return tuple(p for p in found if msgspec.structs.replace(machine, peaks=(p,)).best(p.kind, p.index) is p)


def with_kept(machine: Machine, where: Path | None = None) -> Machine:
    """Return the Machine with the Peaks of its devices that are kept, so that its runs carry them wherever they go."""
    return msgspec.structs.replace(machine, peaks=kept(machine, where or folder()))


def _read(path: Path) -> Peaks | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=Peaks)
    except (OSError, msgspec.MsgspecError, ValueError):  # half written by an older version, or somebody else's
        return None
