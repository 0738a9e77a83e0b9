"""The folder that a CI job leaves: ci.json, and the records that it names. Of a fork's job nothing in it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.own_files import write_whole
from torchstone.core.schema.ci import CiResult, HistoryEntry
from torchstone.core.schema.codec import check_schema
from torchstone.core.schema.run import Run
from torchstone.storage.record_reader import read_record, record_path

CI_FILE = "ci.json"
MOST_FILE_BYTES = 4 * 2**20
MOST_RECORDS_BYTES = 512 * 2**20  # all together
_MOST_COMMITS = 20_000

T = TypeVar("T", CiResult, HistoryEntry)


def write_result(result: CiResult, folder: Path) -> Path:
    """Write ci.json, whole or not at all, and return its path. Raises MissingError where it cannot be written."""
    path = folder / CI_FILE
    try:
        return write_whole(path, msgspec.json.encode(result) + b"\n")
    except OSError as fault:
        raise MissingError(f"cannot write {path}: {fault.strerror}") from fault


def read_ci_result(folder: Path) -> tuple[CiResult, dict[str, Run]]:
    """Return what ci.json says, and the runs that it names, by their ids; those that are missing are left out.

    Raises UsageError where a file is no plain file, too large, or not what it should be.
    """
    result = _decoded(folder / CI_FILE, CiResult)
    listed = [*result.benchmarks, *([result.control] if result.control is not None else [])]
    paths = {one.run_id: record_path(folder, one.run_id) for one in listed if one.run_id is not None}
    if (folder / "records").is_symlink():
        raise UsageError(f"{folder / 'records'} is a link: the records must be in a folder of their own")
    there = {run_id: path for run_id, path in paths.items() if path.exists() or path.is_symlink()}
    total_bytes = sum(_plain_size(path) for path in there.values())
    if total_bytes > MOST_RECORDS_BYTES:
        raise UsageError(f"{folder}: {total_bytes} bytes of records exceeds the limit ({MOST_RECORDS_BYTES})")
    return result, {run_id: read_record(path) for run_id, path in there.items()}


def read_history(folder: Path) -> list[HistoryEntry]:
    """Return the commits in a work tree of the history branch (or in its folder `commits`), oldest first.

    Raises UsageError where there is none, or a file is not what it should be.
    """
    inside = folder / "commits" if (folder / "commits").is_dir() else folder
    if not inside.is_dir():
        raise UsageError(f"{folder}: no such folder; give a work tree of the history branch")
    paths = sorted(path for path in inside.iterdir() if path.suffix == ".json")
    if not paths:
        raise UsageError(f"{folder}: no commits/*.json in it; give a work tree of the history branch")
    if len(paths) > _MOST_COMMITS:
        raise UsageError(f"{folder}: more than {_MOST_COMMITS} commits")
    entries = []
    for path in paths:
        entry = _decoded(path, HistoryEntry)
        if entry.commit != path.stem:
            raise UsageError(f"{path}: it is of commit {entry.commit}, not of the one that its name has")
        entries.append(entry)
    return sorted(entries, key=lambda one: (one.committed_utc, one.commit))


def _plain_size(path: Path) -> int:
    """Return the bytes of a plain file that is no link. Raises UsageError for anything else."""
    if path.is_symlink() or not path.is_file():
        raise UsageError(f"{path} is not a plain file")
    return path.stat().st_size


def _decoded(path: Path, kind: type[T]) -> T:
    if not path.exists() and not path.is_symlink():
        raise UsageError(f"{path}: no such file; torchstone ci measure writes it")
    if _plain_size(path) > MOST_FILE_BYTES:
        raise UsageError(f"{path}: more than {MOST_FILE_BYTES} bytes")
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
        check_schema(found.schema)
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise UsageError(f"{path}: not a result of torchstone ci: {fault}") from None
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    return found
