"""Writes settings into the user's own file: the diff is shown, and a backup is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchstone.analysis.summary import RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.axis import AXES, AxisStage, Scalar
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN


def apply_answer(path: Path, run: RunSummary) -> None:
    """Write the settings of a run's answer into a file. Raises UsageError, with nothing written, where it cannot be."""
    answer = run.answer
    if not isinstance(answer, TuneResult):
        raise UsageError(f"{run.run_id} is not a completed tune: nothing to apply")
    from torchstone.config.applying import present_settings
    from torchstone.workflows.tune.space import applied

    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    try:
        present = present_settings(path)
        measured = {axis: value for axis, value in applied(case.configuration).items() if axis in present}
        if case.placement.device in IN_HOST_MEMORY:
            measured.pop(PIN, None)  # pinning has no effect there, whatever a file says
        settings = {**measured, **answer.settings}
        write_settings(path, settings, str(case.workload.task))
    except UsageError as fault:
        raise UsageError(f"{fault}. Once it is fixed: torchstone show {run.run_id} --apply {path}") from None
    if case.verdict != Verdict.VALID:
        print(f"these settings are not certain to be the best: {case.verdict}. tune again", file=sys.stderr)
    if others := list(_unwritten(case.configuration, settings, present, path)):
        print(f"measured with settings that were not written: {', '.join(others)}", file=sys.stderr)


def _unwritten(
    measured: Mapping[str, Scalar], settings: Mapping[str, Scalar], present: Mapping[str, Scalar], path: Path
) -> Iterator[str]:
    """Yield the settings that were measured, and neither written nor in the file."""
    for axis, value in measured.items():
        stage = AXES[axis].stage
        if axis in settings or axis == PIN or stage == AxisStage.MEASUREMENT:
            continue
        usual = value if stage == AxisStage.ITEM else AXES[axis].default  # a model has sizes of its own
        if value != present.get(axis, usual):
            yield f"{axis} {value}" + (f" ({path.name} has {present[axis]})" if axis in present else "")


def write_settings(path: Path, settings: Mapping[str, Scalar], task: str) -> None:
    """Write settings into a file for a task. Raises UsageError, with nothing written, where it cannot be."""
    from torchstone.config.applying import diff_text, plan_changes, write

    changes = plan_changes(path, settings, task)
    print(diff_text(changes), file=sys.stderr, end="")
    backup = write(changes)
    print(f"wrote {path}; backup: {backup}" if backup else f"{path} has these settings already", file=sys.stderr)
