"""Taking in runs from elsewhere: records, documents, what other tools wrote, or a folder of them.

The same run twice changes nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.flushing import flush_folder
from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Head, Plan, Run
from torchstone.core.schema.trial import Status, Trial
from torchstone.plugins import registry
from torchstone.storage import foreign
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import record_lines

_MOST_FILES = 100_000


def import_path(path: Path, folder: Path) -> list[tuple[str, bool]]:
    """Take what `path` holds into the records of an output folder; return each run's id and whether it was new.

    A longer record of a run replaces a shorter one that it begins with. Only what the schema allows is read. Raises
    UsageError if a file is no run, or a stored run of the same id holds something else; of a folder, after all else
    in it was taken in.
    """
    if not path.is_dir():
        return _taken(path, folder)
    taken: list[tuple[str, bool]] = []
    faults: list[str] = []
    for file in candidates(path, folder):
        try:
            taken += _taken(file, folder)
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


def candidates(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that hold runs, ours or another tool's; not those stored in `folder` already."""
    own = (folder / "records").resolve()
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


def _taken(source: Path, folder: Path) -> list[tuple[str, bool]]:
    tool = foreign.recognised(source)
    runs = (read_run(source),) if tool is None else foreign.looked_at(tool, source)
    return [_stored(run, source, folder) for run in runs]


def _stored(run: Run, source: Path, folder: Path) -> tuple[str, bool]:
    target = record_path(folder, run.head.run_id)
    if not target.exists() and (twin := _twin(run, target.parent)) is not None:
        return twin, False
    if target.exists():
        stored = read_record(target)
        if not _same_beginning(stored, run):
            raise UsageError(f"{source}: run {run.head.run_id} is stored already with other content ({target})")
        if not _longer(run, stored):
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
        if head.source is not None and head.source.sha256 == run.head.source.sha256 and head.plan == run.head.plan:
            return head.run_id
    return None


def _same_beginning(one: Run, other: Run) -> bool:
    """Say whether one is the other cut short. Resumed, it may have taken interrupted trials again and added Cases.

    What another tool wrote is known by its digest: its file may have been renamed since.
    """
    if is_imported(one) and is_imported(other) and one.head.source and other.head.source:
        return one.head.source.sha256 == other.head.source.sha256
    if encode(_without_plan(one)) != encode(_without_plan(other)) or one.head.plan.slots != other.head.plan.slots:
        return False
    if any(encode(a) != encode(b) for a, b in zip(one.head.plan.cases, other.head.plan.cases, strict=False)):
        return False
    return all(encode(a) == encode(b) for a, b in zip(_finished(one), _finished(other), strict=False))


def _without_plan(run: Run) -> Head:
    """Return the head without what may grow: Cases that were added, machines of jobs that were merged later."""
    head = msgspec.structs.replace(run.head, plan=Plan((), ()))
    return msgspec.structs.replace(head, machine=head.machines[0], machines=()) if head.machines else head


def _longer(run: Run, stored: Run) -> bool:
    return _length(run) > _length(stored)


def _length(run: Run) -> tuple[int, bool, int]:
    return len(_finished(run)), run.end is not None, len(run.findings)


def _finished(run: Run) -> list[Trial]:
    return [t for t in run.trials if t.outcome.status != Status.INTERRUPTED]


def write_run(run: Run, target: Path) -> None:
    """Write a whole record at once, or none: without bytes that the schema does not know."""
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
