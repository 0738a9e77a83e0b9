"""Writing what was found into the user's own file: the diff is shown, and a backup left beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar


def apply(path: Path, run: RunSummary) -> None:
    """Write the settings of a run's answer into a file. Raises UsageError, with nothing written, where it cannot be."""
    answer = run.answer
    if answer is None:
        raise UsageError(f"{run.run_id} is not a completed tune: nothing to apply")
    task = next(str(case.workload.task) for case in run.cases if case.case_id == answer.recommended.case_id)
    try:
        write_settings(path, answer.settings, task)
    except UsageError as fault:
        raise UsageError(f"{fault}. Once it is fixed: torchstone show {run.run_id} --apply {path}") from None


def write_settings(path: Path, settings: Mapping[str, Scalar], task: str) -> None:
    """Write settings into a file for a task. Raises UsageError, with nothing written, where it cannot be."""
    from torchstone.config.applying import diff_text, plan_changes, write

    changes = plan_changes(path, settings, task)
    print(diff_text(changes), file=sys.stderr, end="")
    backup = write(changes)
    print(f"wrote {path}; backup: {backup}" if backup else f"{path} has these settings already", file=sys.stderr)
