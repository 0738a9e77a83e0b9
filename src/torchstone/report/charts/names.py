"""What devices and workloads are called in pictures."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.analysis.summary import CaseSummary
from torchstone.core.charts.palette import short
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.machine import Machine

_MOST = 48  # characters of a model

NameOf = Callable[[Case | CaseSummary], str]


def device_names(machine: Machine) -> NameOf:
    """Return what the device of a Case is called: as its vendor does, with its place where several are called so."""
    names = [device.name for device in machine.devices]

    def name_of(case: Case | CaseSummary) -> str:
        place = case.placement
        found = machine.device(place.device, place.index)
        if found is None:
            return str(place)
        return found.name if names.count(found.name) == 1 else f"{found.name} ({place})"

    return name_of


def workload_name(case: Case | CaseSummary) -> str:
    """Return "train cnn": the task and the model, without its source and folders."""
    return f"{case.workload.task} {short(model_name(case.workload.model), _MOST)}"
