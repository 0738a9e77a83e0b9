"""From requests to the two sides of an experiment: one case each, on one device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Task, Workload
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Inspected
from torchstone.execution import plan
from torchstone.workflows.run.program_run import ProgramRequest, check, configurations, workload_of

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest


class SideRequest(msgspec.Struct, frozen=True):
    """One side as asked for: its label, its request with one workload, and the folder of its revision.

    `program`: a command with one value for each axis, in place of the workload.
    """

    label: str
    request: RunRequest
    folder: Path | None = None
    revision: str | None = None
    program: ProgramRequest | None = None


class Sketched(msgspec.Struct, frozen=True):
    """A side that was checked: all but its device is known."""

    label: str
    sketch: plan.Sketch
    folder: Path | None


def with_settings(request: RunRequest, own: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> RunRequest:
    """Return a request with the settings of one side. What only the other side names gets its default said aloud.

    Raises UsageError where the request has several workloads.
    """
    defaults = {name: AXES[name].default for name in other if name not in own}
    workload = _only_workload(request)
    given = {name: value for name, value in defaults.items() if name not in workload.axes}
    axes = {**workload.axes, **{name: (value,) for name, value in {**given, **own}.items()}}
    return msgspec.structs.replace(request, workloads=(msgspec.structs.replace(workload, axes=axes),))


def sketched(side: SideRequest) -> Sketched:
    """Check a side without torch. Raises UsageError naming what there is, or which axis has several values."""
    if side.program is not None:
        return _of_program(side, side.program)
    workload = _only_workload(side.request)
    if workload.task == Task.LOADGEN:
        raise UsageError("ab compares steps, and task loadgen has none: compare runs of it with torchstone compare")
    model = _in_folder(workload.model, side.folder) if side.folder is not None else workload.model
    found = plan.sketch(msgspec.structs.replace(workload.excluding(side.request.exclude), model=model))
    if len(found.configurations) > 1:
        axis = next(name for name, values in workload.axes.items() if len(values) > 1)
        one, other, *_ = workload.axes[axis]
        raise UsageError(
            f"ab compares one case with one, but axis {axis} has {len(workload.axes[axis])} values: give one, or one "
            f"to each side: --a {axis}={one} --b {axis}={other}"
        )
    if side.folder is not None:
        found = msgspec.structs.replace(found, workload=_with_data_from_here(found))
        if model == workload.model and side.folder != Path.cwd():
            # A module is looked for from where we work: its digest is that of the file here, and not of the revision.
            found = msgspec.structs.replace(found, code_sha256=None)
    if side.revision is not None:
        fixed = {**found.workload.fixed, "revision": side.revision}
        found = msgspec.structs.replace(found, workload=msgspec.structs.replace(found.workload, fixed=fixed))
    return Sketched(side.label, found, side.folder)


def _of_program(side: SideRequest, program: ProgramRequest) -> Sketched:
    check(program)
    if several := [name for name, values in program.axes.items() if len(values) > 1]:
        raise UsageError(f"--axis {several[0]}: ab compares one value with one: --a {several[0]}=… --b {several[0]}=…")
    workload = workload_of(program)
    if side.revision is not None:
        workload = msgspec.structs.replace(workload, fixed={**workload.fixed, "revision": side.revision})
    return Sketched(side.label, plan.Sketch(workload, tuple(configurations(program)), own=True), side.folder)


def case_of(side: Sketched, device: str, found: Inspected, machine: Machine) -> Case:
    """Return the Case of a side on a device. Raises UsageError where there is no such device."""
    placement = plan.place(device, found, machine)
    info = machine.device(placement.device, placement.index)
    return Case(side.sketch.workload, plan.on_device(side.sketch.configurations[0], info), placement)


def _only_workload(request: RunRequest) -> WorkloadRequest:
    if len(request.workloads) == 1:
        return request.workloads[0]
    tasks = sorted({w.task for w in request.workloads})
    which = f"--task {tasks[0]}" if len(tasks) == len(request.workloads) else "a file with one workload"
    raise UsageError(
        f"ab compares one case with one, but {request.name or 'this'} has {len(request.workloads)} workloads: "
        f"name one, with {which}"
    )


def _with_data_from_here(found: plan.Sketch) -> Workload:
    """Return the workload with its data by their whole path: both sides read what lies here, and was looked at."""
    scheme, _, path = found.workload.data.partition(":")
    if found.data is None or found.data.sha256 is None or not path or not Path(path).exists():
        return found.workload
    return msgspec.structs.replace(found.workload, data=f"{scheme}:{Path(path).absolute()}")


def _in_folder(model: str, folder: Path) -> str:
    """Return a model of the user's own as that folder has it: a path in it; a module is found there by itself.

    Raises UsageError for an absolute path: it would be one and the same file on both sides.
    """
    scheme, _, name = model.partition(":")
    place, colon, function = name.rpartition(":")
    is_path = scheme == "py" and colon and (place.endswith(".py") or os.sep in place)
    if not is_path:
        return model
    if Path(place).is_absolute():
        raise UsageError(f"model {model}: both revisions would load this same file; give a relative path")
    return f"py:{folder / place}:{function}"
