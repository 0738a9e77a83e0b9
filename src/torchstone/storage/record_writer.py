"""Writes a run's record, `records/<run_id>.jsonl`: one line per finished trial, flushed to disk.

And says when a run that comes is one that is stored, and which of the two is kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.own_files import flush_folder, refuse_links
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.procedure import SEARCH
from torchstone.core.schema.run import Answered, End, Head, Line, Noted, Plan, Run, is_imported
from torchstone.core.schema.trial import Status, Trial
from torchstone.plugins.checking import look
from torchstone.storage.record_reader import MOST_LINE_BYTES, checked_id, read_record, read_whole

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def record_lines(run: Run) -> Iterator[bytes]:
    """Yield the lines of a record with what was read of a run, without bytes that the schema does not know."""
    answer = (Answered(run.answer),) if run.answer is not None else ()
    end = (run.end,) if run.end is not None else ()
    for line in (run.head, *run.trials, *answer, *map(Noted, run.findings), *end):
        yield encode(line) + b"\n"


class RecordWriter:
    """Appends lines to a record. Each is one write, flushed to disk before `append` returns."""

    def __init__(self, path: Path, head: Head) -> None:
        """Begin a record with its head. Raises UsageError if the file exists, MissingError if it cannot be made."""
        checked_id(head.run_id)
        refuse_links(path, path.parent.parent)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            self._hold(path, descriptor)
            self._head = head
            try:
                self._write(head)
                flush_folder(path.parent)
            except BaseException:
                self.close()
                path.unlink()  # an empty record would be in the way of the next attempt
                raise
        except FileExistsError:
            raise UsageError(f"{path} exists already: a record is written once") from None
        except OSError as fault:
            raise MissingError(f"cannot create {path}: {fault.strerror}") from fault

    def _hold(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._good = 0  # bytes that are whole lines; what lies beyond is cut off before the next line is written
        self._before = b""
        try:
            # Held until close: a resume while the run still writes would cut a line in half.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UsageError(f"{path}: another torchstone is writing this record") from None
        except OSError:  # a file system without locks: nothing to hold
            return

    @classmethod
    def reopen(cls, path: Path) -> tuple[RecordWriter, Run]:
        """Return a writer that goes on after the last whole line, and what the record holds so far.

        The file is as it was until the first line is appended. Raises UsageError if it is no record, cannot be
        written, or somebody writes it.
        """
        read_record(path)  # a file that is no record is left as it is
        refuse_links(path, path.parent.parent)
        writer = cls.__new__(cls)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        except OSError as fault:
            why = "it is a link; resume the file it points to" if path.is_symlink() else fault.strerror
            raise UsageError(f"{path} cannot be written: {why}") from None
        writer._hold(path, descriptor)
        try:
            run, writer._good = read_whole(path)  # again, now that nobody else writes
            writer._head = run.head
            writer._before = b"" if _ends_with_newline(path, writer._good) else b"\n"
        except BaseException:
            writer.close()
            raise
        return writer, run

    def append(self, line: Line) -> None:
        """Write one line and flush it. Raises MissingError if it did not get to disk; the lines before it stay."""
        try:
            self._write(line)
        except OSError as fault:
            head = msgspec.structs.replace(self._head, run_id=self.path.stem)  # a file may have been renamed
            raise unwritten(self.path, fault, self.path.parent.parent, head) from fault

    def end(self, notes: Sequence[Finding], status: str, why: str | None = None) -> Run:
        """Run every check on what the record holds, write what they find and how the run ended, and return it whole.

        `notes`: findings on what was asked for.
        """
        run = read_record(self.path)
        findings = list(run.findings)  # of a resumed run to which no trial was added
        for finding in (*notes, *look(run)):
            if finding not in findings:
                findings.append(finding)
                self.append(Noted(finding))
        end = End(datetime.now(UTC).isoformat(timespec="seconds"), status, why)
        self.append(end)
        return msgspec.structs.replace(run, findings=tuple(findings), end=end)

    def _write(self, line: Line) -> None:
        data = self._before + encode(line) + b"\n"
        if len(data) > MOST_LINE_BYTES:
            raise TorchstoneError(f"{self.path}: a line of {len(data)} bytes exceeds the limit of a record")
        try:
            if os.fstat(self._descriptor).st_size != self._good:  # torn by a kill or by Ctrl-C
                os.ftruncate(self._descriptor, self._good)
            rest = memoryview(data)
            while rest:  # in one go, but on a disk that fills up: the second one says why
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # a torn line is cut off by the next writer, and no reader minds it
                os.ftruncate(self._descriptor, self._good)
            raise
        self._good += len(data)
        self._before = b""

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ends_with_newline(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"


def typed_run(folder: Path, run_id: str) -> str:
    """Return how a command is told which run of an output folder is meant."""
    usual = Path(os.environ.get("TORCHSTONE_OUTPUT", "outputs"))
    return run_id + ("" if folder == usual else f" --output-dir {shlex.quote(str(folder))}")


def next_words(folder: Path, head: Head, what: str = "continues") -> str:
    """Return what to type after a run that ended early: what takes the rest or, where nothing can, what shows it.

    `what`: what `resume` does about it.
    """
    if (fit := head.procedure.fit) is not None:
        return f"`torchstone train --resume {shlex.quote(fit.folder)}` continues"
    where = typed_run(folder, head.run_id)
    if head.ab is not None or head.command[:1] == (SEARCH,):
        return f"`torchstone show {where}` shows what was measured; it cannot be resumed, start a new one"
    return f"`torchstone resume {where}` {what}"


def unwritten(path: Path, fault: OSError, folder: Path, head: Head) -> MissingError:
    """Return the error for a file of a run that could not be written. What its record holds already stays."""
    first = "free some space, then" if fault.errno in _FULL else "when it can be written,"
    return MissingError(f"cannot write {path}: {fault.strerror}; {first} {next_words(folder, head)}")


def same_beginning(one: Run, other: Run) -> bool:
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


def is_longer(run: Run, stored: Run) -> bool:
    """Say whether a run has more than the stored one that it begins with."""
    return _length(run) > _length(stored)


def is_twin(run: Run, head: Head) -> bool:
    """Say whether another tool wrote both of the same file. A file may not say when: then a copy has another id."""
    if not is_imported(run) or run.head.source is None or head.source is None:
        return False
    return head.source.sha256 == run.head.source.sha256 and head.plan == run.head.plan


def _without_plan(run: Run) -> Head:
    """Return the head without what may grow: Cases that were added, machines of jobs that were merged later."""
    head = msgspec.structs.replace(run.head, plan=Plan((), ()))
    return msgspec.structs.replace(head, machine=head.machines[0], machines=()) if head.machines else head


def _length(run: Run) -> tuple[int, bool, int]:
    return len(_finished(run)), run.end is not None, len(run.findings)


def _finished(run: Run) -> list[Trial]:
    return [t for t in run.trials if t.outcome.status != Status.INTERRUPTED]
