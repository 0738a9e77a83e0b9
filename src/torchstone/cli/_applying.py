"""Writes settings into the user's own file, with a diff and a backup; a model into a file that needs no torchstone."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core import units
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.axis import AXES, AxisStage, Scalar
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.request import IN_HOST_MEMORY, PIN

if TYPE_CHECKING:
    from torchstone.analysis.summary import RunSummary


def apply_answer(path: Path, run: RunSummary) -> None:
    """Write the settings of a run's answer into a file.

    With nothing written it raises UsageError where it cannot be, TorchstoneError where all cases are in doubt.
    """
    answer = run.answer
    if not isinstance(answer, TuneResult):
        raise UsageError(f"{run.run_id} is not a completed tune: nothing to apply")
    from torchstone.analysis.summary import all_in_doubt
    from torchstone.config.applying import present_settings
    from torchstone.workflows.tune.space import applied

    case = next(case for case in run.cases if case.case_id == answer.recommended.case_id)
    if all_in_doubt(run.cases):
        raise TorchstoneError(
            f"which settings are best is not known ({case.verdict}): {path} stays as it is; tune again"
        )
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


def add_save_model(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add --save-model."""
    parser.add_argument(
        "--save-model",
        type=Path,
        metavar="FILE",
        help="write the model of task infer with the best settings, as its runtime loads it (suffix .onnx, .xml, .pt2 "
        "or .pt), and print the lines of Python that run it without torchstone",
    )


def save_model(options: argparse.Namespace, summary: RunSummary, path: Path) -> None:
    """Write the model of a run, and print its files and how they are loaded: on stderr where stdout is JSON."""
    from torchstone.execution.controller.device_lock import WhenBusy
    from torchstone.storage.query import read_run
    from torchstone.workflows.tune.saving import saved

    word = getattr(options, "when_busy", os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"))
    busy = WhenBusy.read(word, lambda text: print(f"torchstone: {text}", file=sys.stderr, flush=True))
    found = saved(read_run(Path(summary.record)), summary, path, busy)
    for file in found.files:
        print(f"wrote {file} ({units.quantity(float(file.stat().st_size), 'bytes')})", file=sys.stderr)
    print("\n".join(found.lines), file=sys.stderr if options.json else sys.stdout)
