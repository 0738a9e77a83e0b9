"""The document of a run: `benchmark_<vendor>_<YYYYmmdd_HHMMSS>.json`, everything in one self-contained file."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.own_files import flush_folder
from torchstone.core.schema.codec import check_stamp, decode
from torchstone.core.schema.run import Run
from torchstone.core.schema.run_document import PerformanceSummary, RunDocument, document_bytes
from torchstone.core.schema.trial import Trial
from torchstone.storage.record_reader import bounded, check_run, checked_id, is_new, read_bounded
from torchstone.storage.record_writer import unwritten


def write_document(run: Run, folder: Path, summary: Sequence[PerformanceSummary] | None = None) -> Path:
    """Write the run's document into `folder` and return its path. Never overwrites; readers never see half a file.

    Raises MissingError if the disk is full.
    """
    stem = f"benchmark_{vendor_of(run)}_{_moment(run.head.started_utc)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return write_new(folder, stem, document_bytes(run, (), summary))
    except OSError as fault:
        raise unwritten(folder / f"{stem}.json", fault, folder, run.head) from fault


def read_document(path: Path) -> Run:
    """Return the run in a document. Raises UsageError naming the file and what is wrong with it."""
    with read_bounded(path) as file:
        if file.read(1) != b"{":
            raise UsageError(f"{path}: not a torchstone document")
        data = b"{" + file.read()
    try:
        check_stamp(data, "document", "document")
        found: RunDocument = decode(data, RunDocument)
        checked_id(found.head.run_id)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    cases = {case.case_id for case in found.head.plan.cases}
    for trial in found.trials:
        if trial.case_id not in cases:
            raise UsageError(f"{path}: trial {trial.trial_id[:80]!r} has a case_id that is not in the run's plan")
    known: dict[str, Trial] = {}
    try:
        trials = tuple(trial for trial in map(bounded, found.trials) if is_new(trial, known))
        return check_run(Run(found.head, trials, found.findings, found.end, found.answer))
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None


def vendor_of(run: Run) -> str:
    """Return who made what the run was measured on: cpu, nvidia, amd, apple, intel; the device's kind if unknown."""
    cases = run.head.plan.cases
    placement = cases[0].placement if cases else None
    if placement is None or placement.device == "cpu":
        return "cpu"
    device = run.head.machine.device(placement.device, placement.index)
    return re.sub(r"[^a-z0-9]+", "", (device.vendor if device else placement.device).lower()) or "unknown"


def _moment(utc: str) -> str:
    try:
        found = datetime.fromisoformat(utc)
    except ValueError:
        return re.sub(r"[^0-9A-Za-z]+", "", utc)[:32] or "undated"
    return (found.astimezone(UTC) if found.tzinfo else found).strftime("%Y%m%d_%H%M%S")


def write_new(folder: Path, stem: str, data: bytes) -> Path:
    """Write `<stem>.json`, or `<stem>_2.json` where that is taken, whole or not at all; return its path."""
    descriptor, name = tempfile.mkstemp(prefix=".writing_", suffix=".json", dir=folder)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        path = _claimed(folder, stem)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(folder)
    return path


def _claimed(folder: Path, stem: str) -> Path:
    number = 1
    while True:
        path = folder / (f"{stem}.json" if number == 1 else f"{stem}_{number}.json")
        try:
            # The name is taken before it is filled: of two processes that end in one second neither loses its file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            return path
        except FileExistsError:
            number += 1
