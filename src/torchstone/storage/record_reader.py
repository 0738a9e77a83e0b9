"""Reading a record: decoded against the schema, bounded in size, never executed. It may come from anywhere.

A last line that was cut off while it was written costs only itself.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import Malformed, check_stamp, decode
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.run import Added, Answered, End, Head, Line, Noted, Run
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.storage.bounds import bounded
from torchstone.storage.consistency import check_run
from torchstone.storage.wanted import Wanted, wanted_line

MOST_BYTES = 2**30
MOST_LINE_BYTES = 64 * 2**20
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def record_path(folder: Path, run_id: str) -> Path:
    """Return where the record of a run lies in an output folder. Raises UsageError for an id that is no file name."""
    return folder / "records" / f"{checked_id(run_id)}.jsonl"


def checked_id(run_id: str) -> str:
    """Return `run_id` if it may name a file, else raise UsageError: it may come from a stranger's record."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"run id {run_id[:80]!r}: only letters, digits and . _ - are allowed, 128 at most")
    return run_id


def read_record(path: Path, wanted: Wanted | None = None) -> Run:
    """Return the run in a record, finished or not, or the part that is wanted.

    Raises UsageError naming the file, the line and the fault.
    """
    return read_whole(path, wanted)[0]


def read_head(path: Path) -> Head:
    """Return the first line of a record. Raises UsageError naming the file and the fault."""
    with read_bounded(path) as file:
        return _head(path, next(_lines(path, file), b""))[0]


def read_whole(path: Path, wanted: Wanted | None = None) -> tuple[Run, int]:
    """Return the run in a record (or what is wanted of it), and how many bytes of the file are whole lines of it."""
    with read_bounded(path) as file:
        lines = _lines(path, file)
        head, good = _head(path, next(lines, b""))
        parts = _Parts(head)
        for number, data in enumerate(lines, 2):
            try:
                parts.add(decode(data, Line) if wanted is None else wanted_line(data, wanted))
            except Malformed as fault:
                if not next(lines, b""):
                    break  # cut off while it was written
                raise UsageError(f"{path}:{number}: {fault}") from None
            except UsageError as fault:
                raise UsageError(f"{path}:{number}: {fault}") from None
            good += len(data)
    try:
        return check_run(parts.run(head)), good
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None


@contextlib.contextmanager
def read_bounded(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read it within the block.

    Raises UsageError if it is not there, not a plain file, larger than MOST_BYTES, or a read fails within the block.
    """
    with _opened(path) as file:
        try:
            yield file
        except OSError as fault:  # a disk, or a network file system, that fails
            raise UsageError(f"cannot read {path}: {fault.strerror}") from fault


def _opened(path: Path) -> BinaryIO:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file")
        if found.st_size > MOST_BYTES:
            raise UsageError(f"{path}: {found.st_size} bytes exceeds the limit of a record ({MOST_BYTES})")
        return path.open("rb")
    except OSError as fault:
        raise UsageError(f"cannot read {path}: {fault.strerror}") from None
    except ValueError as fault:  # a path with a NUL in it
        raise UsageError(f"cannot read {str(path)!r}: {fault}") from None


def is_new(trial: Trial, known: dict[str, Trial]) -> bool:
    """Say whether no trial of that id is known, and add it: what stands in a file twice is one trial.

    Raises UsageError where one of that id is known that is not the same.
    """
    same = known.setdefault(trial.trial_id, trial)
    if same is trial:
        return True
    if repr(same) != repr(trial):  # where a value is NaN, equal trials are not ==
        raise UsageError(f"trial {trial.trial_id[:80]!r} is there twice, with different content")
    return False


class _Parts:
    """A run in the making, line by line."""

    def __init__(self, head: Head) -> None:
        self.added: dict[str, Case] = {}
        self.trials: list[Trial] = []
        self._known: dict[str, Trial] = {}
        self.answer: Answer | None = None
        self.findings: list[Finding] = []
        self.end: End | None = None
        self._interrupted: dict[tuple[str, int, Purpose], int] = {}
        self._taken_again: set[int] = set()
        self._cases = {case.case_id for case in head.plan.cases}

    def add(self, line: Line | None) -> None:
        """Take a line; None for a trial that is not wanted."""
        if line is None:
            self._resumed()
        elif isinstance(line, Head):
            raise UsageError("a second head line: two records in one file")
        elif isinstance(line, Added):
            case_id = line.case.case_id
            if case_id not in self._cases:  # a resumed search may have proposed it again
                self._cases.add(case_id)
                self.added[case_id] = line.case
        elif isinstance(line, Trial):
            if line.case_id not in self._cases:
                raise UsageError(f"trial {line.trial_id[:80]!r} has a case_id that is not in the run's plan")
            self._resumed()
            self._take(bounded(line))
        elif isinstance(line, Noted):
            self.findings.append(line.finding)
        elif isinstance(line, Answered):
            self.answer = line.answer
        else:
            self.end = line

    def _resumed(self) -> None:
        # What was said of the shorter run holds no longer, even where a second Ctrl-C cut its end off.
        self.end, self.findings, self.answer = None, [], None

    def _take(self, trial: Trial) -> None:
        if not is_new(trial, self._known):
            return
        key = (trial.case_id, trial.number, trial.purpose)
        if key in self._interrupted:
            self._taken_again.add(self._interrupted.pop(key))
        if trial.outcome.status == Status.INTERRUPTED:
            self._interrupted[key] = len(self.trials)
        self.trials.append(trial)

    def run(self, head: Head) -> Run:
        """Return the Run: with the Cases added on the way in its Plan, without interrupted trials taken again."""
        if self.added:
            plan = msgspec.structs.replace(head.plan, cases=(*head.plan.cases, *self.added.values()))
            head = msgspec.structs.replace(head, plan=plan)
        trials = tuple(t for place, t in enumerate(self.trials) if place not in self._taken_again)
        return Run(head, trials, tuple(self.findings), self.end, self.answer)


def _head(path: Path, data: bytes) -> tuple[Head, int]:
    if not data.strip():
        raise UsageError(f"{path}: no head line: the file is empty")
    try:
        check_stamp(data, "head", "record")
        head: Head = decode(data, Head)
        checked_id(head.run_id)
        return head, len(data)
    except Malformed:
        fault = "not a torchstone record" if not data.startswith(b'{"record":"head"') else "its head line is cut off"
        raise UsageError(f"{path}: {fault}") from None
    except UsageError as fault:
        raise UsageError(f"{path}:1: {fault}") from None


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    if file.read(1) not in (b"{", b""):  # most foreign files end here, whatever their size
        raise UsageError(f"{path}: not a torchstone record")
    file.seek(0)
    number = 0
    while data := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(data) > MOST_LINE_BYTES:
            raise UsageError(f"{path}:{number}: a line of more than {MOST_LINE_BYTES} bytes")
        yield data
