"""Workloads of inference as loads: the same model and data, asked by a load generator."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.schema.case import Task
from torchstone.core.schema.request import WorkloadRequest
from torchstone.plugins.model_choice import takes


def as_loads(workloads: Sequence[WorkloadRequest]) -> tuple[WorkloadRequest, ...]:
    """Return the workloads of tasks infer and loadgen as loads, without the axes that a load has not."""
    found = []
    for one in workloads:
        if one.task in (Task.INFER, Task.LOADGEN):
            axes = {
                axis: values for axis, values in one.axes.items() if takes(Task.LOADGEN, one.model, one.options, axis)
            }
            found.append(msgspec.structs.replace(one, task=str(Task.LOADGEN), axes=axes))
    return tuple(found)
