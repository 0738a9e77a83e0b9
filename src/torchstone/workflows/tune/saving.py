"""The model of a run as a file that its runtime loads without torchstone: of a tune the recommended settings'."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from torchstone.analysis.summary import RunSummary, all_in_doubt
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.run import Run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy, held
from torchstone.execution.controller.session import Session
from torchstone.plugins import registry
from torchstone.workflows.run.reproduction import recheck

_TORCHS = (".pt2", ".pt")


class SavedModel(NamedTuple):
    """What was written, and the lines of Python that load it and run it."""

    files: tuple[Path, ...]
    lines: Sequence[str]


def checked_path(given: Path) -> Path:
    """Return the path without the suffix of a runtime, as which runtime it will be is known at the end alone.

    Raises UsageError where a file that might be written is there, or its folder is not.
    """
    runtimes = (registry.load("runtimes", name) for name in registry.names("runtimes"))
    suffixes = [*_TORCHS, *(suffix for runtime in runtimes for suffix in runtime.suffixes)]
    path = given.with_suffix("") if given.suffix in suffixes else given
    if not path.parent.is_dir():
        raise UsageError(f"--save-model {given}: there is no folder {path.parent}")
    for file in (path.parent / f"{path.name}{suffix}" for suffix in ("", *suffixes)):
        if file.exists():
            raise UsageError(f"--save-model {given}: {file} exists; give a new name")
    return path


def saved(run: Run, summary: RunSummary, path: Path, busy: WhenBusy = SHARE) -> SavedModel:
    """Write the model beside `path`, which `checked_path` has returned. Raises UsageError for a run without one."""
    case = _chosen(summary)
    if case.workload.task != Task.INFER:
        raise UsageError(f"{summary.run_id} is of task {case.workload.task}: only a model of task infer can be saved")
    if changes := recheck(run.head, [case]).changes:
        raise UsageError(f"{summary.run_id}: {'; '.join(changes)}: measure again, then save")
    procedure = msgspec.structs.replace(summary.procedure, telemetry_period_s=0.0, disturbed="keep")
    with (
        tempfile.TemporaryDirectory(dir=path.parent, prefix=".torchstone-") as beside,
        Session(procedure, [case.workload.model]) as session,
    ):
        folder = Path(beside) / path.name
        folder.mkdir()
        machine, _ = session.inspect()
        with held([case.placement], machine, summary.run_id, busy):  # an export would disturb what is measured
            lines = session.save(case, folder.absolute(), str(path))
        checked_path(path)  # once more: a tune takes minutes
        files = tuple(file.rename(path.parent / file.name) for file in sorted(folder.iterdir()))
    return SavedModel(files, lines)


def _chosen(summary: RunSummary) -> Case:
    """Return the recommended Case of a tune, or the only one of a run."""
    answer = summary.answer
    if isinstance(answer, TuneResult) and (doubtful := all_in_doubt(summary.cases)):
        raise TorchstoneError(
            f"which settings are best is not known ({doubtful[0].verdict}): no model is saved; tune again"
        )
    wanted = answer.recommended.case_id if isinstance(answer, TuneResult) else None
    found = [case for case in summary.cases if wanted in (None, case.case_id)]
    if len(found) != 1:
        raise UsageError(f"{summary.run_id} has {len(found)} cases: torchstone tune chooses one, or run one alone")
    return Case(found[0].workload, found[0].configuration, found[0].placement)
