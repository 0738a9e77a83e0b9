"""A run in progress, read from its record as it grows: each look decodes only the lines that are new."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.codec import decode
from torchstone.core.schema.run import Added, End, Head, Line
from torchstone.core.schema.trial import Status, Trial
from torchstone.storage.record_reader import MOST_LINE_BYTES, bounded, read_bounded
from torchstone.storage.rows import RATE, Rated, Throughput, believed_rates, rates_of_values, settings_words

_MOST_S = 0.2  # of one look: the rest of a long record is read by the next ones
_LATEST = 12  # trials that are listed
_RECENT_S = 600.0  # a record that grew within this may still be written, where the system does not tell


class CaseProgress(msgspec.Struct, frozen=True):
    """One Case so far. `rate`: items/s over its successful trials, with the 95 % confidence interval."""

    case_id: str
    label: str
    device: str
    item: str
    ok: int
    failed: int
    rate: float | None
    low: float | None
    high: float | None


class LatestTrial(msgspec.Struct, frozen=True):
    """One trial. `rate`: its throughput in items/s; None where it has none."""

    number: int
    label: str
    device: str
    item: str
    status: str
    message: str
    rate: float | None
    duration_s: float
    purpose: str


class RunProgress(msgspec.Struct, frozen=True):
    """A run so far. `planned`: its trials, where their number is known beforehand; `latest`: newest first.

    `ended`: how it ended, None while it goes on; `whole`: the record has been read to its end.
    """

    run_id: str
    name: str
    started_utc: str
    done: int
    failed: int
    planned: int | None
    cases: tuple[CaseProgress, ...]
    latest: tuple[LatestTrial, ...]
    ended: str | None
    whole: bool


class _ListedTrial(NamedTuple):
    """What is listed of a trial."""

    case_id: str
    number: int
    rated: Rated
    duration_s: float


class Following:
    """Follows one record. Several threads may look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._head: Head | None = None
        self._cases: dict[str, Case] = {}
        # Of an interrupted trial nothing is kept: it is taken again. Of the others no raw values are, so that an open
        # page does not grow with the record.
        self._rated: dict[str, list[Rated]] = {}
        self._rates: dict[str, tuple[list[float], int]] = {}  # of a Case without a trial since: its rates, and failures
        self._latest: deque[_ListedTrial] = deque(maxlen=_LATEST)
        self._known: set[str] = set()  # ids of trials
        self._done = self._failed = 0
        self._end: End | None = None

    def look(self) -> RunProgress:
        """Return how far the run is. Raises UsageError where the record is gone, or is none."""
        with self._lock:
            whole = self._read()
            return self._progress(whole)

    def _read(self) -> bool:
        until = time.monotonic() + _MOST_S
        with read_bounded(self._path) as file:
            if os.fstat(file.fileno()).st_size < self._offset:  # another file by the same name
                self._begin()
            file.seek(self._offset)
            while time.monotonic() < until:
                data = file.readline(MOST_LINE_BYTES + 1)
                if len(data) > MOST_LINE_BYTES:
                    raise UsageError(f"{self._path}: a line of more than {MOST_LINE_BYTES} bytes")
                if not data.endswith(b"\n"):
                    return True
                self._take(data)
                self._offset += len(data)
        return False

    def _take(self, data: bytes) -> None:
        line: Line = decode(data, Line)
        if isinstance(line, Head):
            self._head = line
            self._cases.update({case.case_id: case for case in line.plan.cases})
        elif isinstance(line, Added):
            self._cases[line.case.case_id] = line.case
        elif isinstance(line, Trial):
            self._end = None  # the run was resumed
            self._take_trial(bounded(line))
        elif isinstance(line, End):
            self._end = line

    def _take_trial(self, trial: Trial) -> None:
        if trial.outcome.status == Status.INTERRUPTED or trial.trial_id in self._known:
            return
        self._known.add(trial.trial_id)
        rated = Rated(trial.outcome, trial.purpose, figures(trial).values.get(RATE), trial.disturbed)
        self._rated.setdefault(trial.case_id, []).append(rated)
        self._rates.pop(trial.case_id, None)
        self._latest.append(_ListedTrial(trial.case_id, trial.number, rated, trial.duration_s))
        self._done += 1
        self._failed += trial.outcome.status != Status.OK

    def _progress(self, whole: bool) -> RunProgress:
        head = self._head
        if head is None:
            raise UsageError(f"{self._path}: no run has begun in this record")
        latest = tuple(self._listed(trial) for trial in reversed(self._latest))
        ended = self._end.status if self._end is not None else None
        return RunProgress(
            head.run_id,
            head.name,
            head.started_utc,
            self._done,
            self._failed,
            _planned(head),
            self._case_rows(head),
            latest,
            ended,
            whole,
        )

    def _case_rows(self, head: Head) -> tuple[CaseProgress, ...]:
        for case_id in self._cases.keys() - self._rates.keys():
            own = self._rated.get(case_id, [])
            self._rates[case_id] = believed_rates(own), sum(one.outcome.status != Status.OK for one in own)
        values = [self._rates[case_id][0] for case_id in self._cases]
        rates = rates_of_values(values, head.usual.deviation if head.usual is not None else None)
        return tuple(self._row(*case, rate) for case, rate in zip(self._cases.items(), rates, strict=True))

    def _row(self, case_id: str, case: Case, rate: Throughput) -> CaseProgress:
        failed = self._rates[case_id][1]
        ok = len(self._rated.get(case_id, ())) - failed
        return CaseProgress(case_id, _label(case), str(case.placement), case.workload.item, ok, failed, *rate)

    def _listed(self, trial: _ListedTrial) -> LatestTrial:
        case, rated = self._cases.get(trial.case_id), trial.rated
        label, device, item = trial.case_id, "", "item"
        if case is not None:
            label, device, item = _label(case), str(case.placement), case.workload.item
        return LatestTrial(
            trial.number,
            label,
            device,
            item,
            str(rated.outcome.status),
            rated.outcome.message or "",
            rated.rate,
            trial.duration_s,
            str(rated.purpose),
        )


def _label(case: Case) -> str:
    work = f"{case.workload.task} {model_name(case.workload.model)}"
    return ", ".join(filter(None, (work, settings_words(case.configuration))))


def _planned(head: Head) -> int | None:
    open_ended = head.procedure.in_rounds or head.tune is not None or head.ab is not None
    return None if open_ended else len(head.plan.slots)


def is_written(path: Path, host: str, locks: Path = Path("/proc/locks")) -> bool:
    """Say whether a process is writing this record: its writer holds a lock on it (storage/record_writer.py).

    Read from the kernel's list: trying the lock could be in the way of a writer. A list has only the processes of its
    own machine or container. Where `host`, that of the run, is another, or there is no list: whether the record grew
    within ten minutes.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    if host == socket.gethostname():
        with contextlib.suppress(OSError):  # not Linux
            return any(_locks(line, found.st_ino) for line in locks.read_text("ascii", "replace").splitlines())
    return time.time() - found.st_mtime < _RECENT_S


def _locks(line: str, inode: int) -> bool:
    """Say whether a line of /proc/locks is of a lock on that file: "1: FLOCK  ADVISORY  WRITE 708 08:01:2490 0 EOF".

    The device is left out of it: of an overlay file system it is another than `stat` tells.
    """
    parts = line.split()
    return len(parts) > 5 and parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == str(inode)
