"""Taking in runs from elsewhere: records, documents, what other tools wrote, or a folder of them.

The same run twice changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.own_files import flush_folder, refuse_links
from torchstone.core.schema.run import Run, is_imported
from torchstone.plugins import registry
from torchstone.storage import foreign
from torchstone.storage.place import Place, Team
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import is_longer, is_twin, record_lines, same_beginning
from torchstone.storage.team.session import RefusedError

if TYPE_CHECKING:
    from torchstone.storage.team.records import Writer

_MOST_FILES = 100_000
_Keep = Callable[[Path], list[tuple[str, bool]]]


def import_path(path: Path, place: Place) -> list[tuple[str, bool]]:
    """Take what `path` holds into an output folder or a team's store; return each run's id and whether it was new.

    A longer record of a run replaces a shorter one that it begins with. Only what the schema allows is read. Raises
    UsageError if a file is no run, or a stored run of the same id holds something else; of a folder, after all else
    in it was taken in.
    """
    with _keeping(place) as keep:
        if not path.is_dir():
            return keep(path)
        own = place if isinstance(place, Path) else None
        return _each(path, candidates(path, own), keep)


def push_records(paths: Iterable[Path], team: Team) -> tuple[list[tuple[str, bool]], list[str]]:
    """Put these records into a team's store; return each run's id and whether that changed it, and what was refused.

    Raises AwayError where the server goes away and stays so: what it has is not sent again.
    """
    taken: list[tuple[str, bool]] = []
    faults: list[str] = []
    with _keeping(team) as keep:
        for path in paths:
            try:
                taken += keep(path)
            except RefusedError:  # so would it be for all others
                raise
            except UsageError as fault:
                faults.append(str(fault))
    return taken, faults


def _each(path: Path, files: Iterable[Path], keep: _Keep) -> list[tuple[str, bool]]:
    taken: list[tuple[str, bool]] = []
    faults: list[str] = []
    for file in files:
        try:
            taken += keep(file)
        except RefusedError:
            raise
        except UsageError as fault:
            faults.append(str(fault))
    if not taken and not faults:
        tools = ", ".join(registry.names("importers"))
        what = f"no records (*.jsonl), no documents (benchmark_*.json), and nothing of {tools}"
        raise UsageError(f"{path}: {what} in this folder")
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UsageError(f"{faults[0]}{more}; the {len(taken)} valid runs of {path} were imported")
    return taken


def candidates(path: Path, folder: Path | None) -> Iterator[Path]:
    """Yield the files below a folder that hold runs, ours or another tool's; not those stored in `folder` already."""
    own = (folder / "records").resolve() if folder is not None else None
    found = 0
    for file in sorted(path.rglob("*")):
        document = file.suffix == ".json" and file.name.startswith("benchmark_")
        wanted = file.suffix == ".jsonl" or (document and not file.name.startswith("benchmark_comparison_"))
        # A link in a stranger's folder may point anywhere.
        if file.is_symlink() or not file.is_file() or file.parent.resolve() == own:
            continue
        if not wanted and foreign.recognised(file) is None:
            continue
        found += 1
        if found > _MOST_FILES:
            raise UsageError(f"{path}: more than {_MOST_FILES} files")
        yield file


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; "" where it cannot be read: who reads it says why."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


@contextlib.contextmanager
def _keeping(place: Place) -> Iterator[_Keep]:
    """Give what takes the runs of a file in: into a folder, or over one connection into a team's store."""
    if isinstance(place, Path):
        yield lambda source: [_stored(run, source, place) for run in _read(source)]
        return
    from torchstone.storage.team.records import Writer

    with Writer(place) as writer:
        yield lambda source: _pushed(writer, source)


def _read(source: Path) -> Sequence[Run]:
    tool = foreign.recognised(source)
    return (read_run(source),) if tool is None else foreign.looked_at(tool, source)


def _pushed(writer: Writer, source: Path) -> list[tuple[str, bool]]:
    """Put the runs of a file into a team's store. One that it has as it is, by its digest, is not read."""
    if foreign.recognised(source) is not None:
        return [writer.put(run, str(source)) for run in _read(source)]
    digest = digest_of(source)
    if digest and (known := writer.holds(digest)) is not None:
        return [(known, False)]
    return [writer.put(read_run(source), str(source), digest)]


def _stored(run: Run, source: Path, folder: Path) -> tuple[str, bool]:
    target = record_path(folder, run.head.run_id)
    if not target.exists() and (twin := _twin(run, target.parent)) is not None:
        return twin, False
    if target.exists():
        stored = read_record(target)
        if not same_beginning(stored, run):
            raise UsageError(f"{source}: run {run.head.run_id} is stored already with other content ({target})")
        if not is_longer(run, stored):
            return run.head.run_id, False
    write_run(run, target)
    return run.head.run_id, True


def _twin(run: Run, records: Path) -> str | None:
    """Return the id of the stored run of the same file; None if there is none, or another tool did not measure this.

    Where a file does not say when it was measured, its id begins with when it was written: a copy of it has another.
    """
    if not is_imported(run) or run.head.source is None:
        return None
    for path in sorted(records.glob(f"*-{run.head.run_id.rpartition('-')[2]}.jsonl")):
        head = read_record(path).head
        if is_twin(run, head):
            return head.run_id
    return None


def write_run(run: Run, target: Path) -> None:
    """Write a whole record at once, or none: without bytes that the schema does not know."""
    refuse_links(target, target.parent.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".importing_", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(record_lines(run))
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        flush_folder(target.parent)
    except OSError as fault:
        raise TorchstoneError(f"cannot write {target}: {fault.strerror}") from fault
