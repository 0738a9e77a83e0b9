"""Writing the answer of a tune into the user's own file: the diff is shown, and a backup left beside it."""

from __future__ import annotations

import sys
from pathlib import Path

from torchstone.errors import UsageError
from torchstone.summary import RunSummary


def apply(path: Path, run: RunSummary) -> None:
    """Write the settings of a run's answer into a file. Raises UsageError, with nothing written, where it cannot be."""
    from torchstone.config.applying import diff_text, plan_changes, write

    answer = run.answer
    if answer is None:
        raise UsageError(f"{run.run_id} has no answer to apply: it is no tune that came to its end")
    task = next(str(case.workload.task) for case in run.cases if case.case_id == answer.recommended.case_id)
    changes = plan_changes(path, answer.settings, task)
    print(diff_text(changes), file=sys.stderr, end="")
    try:
        backup = write(changes)
    except UsageError as fault:
        raise UsageError(f"{fault}. Once it is mended: torchstone show {run.run_id} --apply {path}") from None
    print(f"wrote {path}; as it was: {backup}" if backup else f"{path} says so already", file=sys.stderr)
