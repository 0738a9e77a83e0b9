"""One workload as it is asked for: task, model, data and the values of the axes that vary, in the user's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement
from torchstone.core.schema.condition import Condition
from torchstone.core.schema.estimate import Finding, Severity


class WorkloadRequest(msgspec.Struct, frozen=True):
    """One workload in the user's words. `data` None leaves the choice to the model: synthetic, or its own example.

    `options` are the model's, `data_options` the data's. `axes`: their values, parsed (`axis_values`). `exclude`:
    Configurations that meet one of these are left out.

    `fed`: real data come through the loader whatever the task, as they do for training. Otherwise a question about
    inference (how soon does the model answer?) is one about the model: its batches are resident, and its table says so.
    """

    task: str
    model: str
    data: str | None = None
    options: Mapping[str, Scalar] = {}
    axes: Mapping[str, Sequence[Scalar]] = {}
    data_options: Mapping[str, Scalar] = {}
    exclude: Sequence[Condition] = ()
    fed: bool = False

    def excluding(self, exclude: Sequence[Condition]) -> WorkloadRequest:
        """Return it without the Configurations that meet one of these conditions."""
        return msgspec.structs.replace(self, exclude=exclude)


PIN = "pin_memory"
WITHOUT_EFFECT = "setting_without_effect"  # what the finding on it is called
IN_HOST_MEMORY = ("cpu", "mps")  # nothing is transferred to them


def effective(configurations: Sequence[Mapping[str, Scalar]], placement: Placement) -> Sequence[Mapping[str, Scalar]]:
    """Return Configurations as they are measured there: not pinned, where all ask for it and it has no effect.

    Where some ask for it and some do not, it is what the user asks about: all stay, and the device refuses with its
    reason what would be measured twice.
    """
    return [{**one, PIN: False} for one in configurations] if _in_vain(configurations, placement) else configurations


def notes(asked: Iterable[Sequence[Mapping[str, Scalar]]], placements: Sequence[Placement]) -> list[Finding]:
    """Return what a record says where `effective` changes any of these Configurations: one finding, or none."""
    every = list(asked)
    where = dict.fromkeys(p.device for p in placements if any(_in_vain(one, p) for one in every))
    if not where:
        return []
    values: Values = {"setting": f"{PIN}=true", "devices": tuple(where), "measured": f"{PIN}=false"}
    return [Finding(WITHOUT_EFFECT, Severity.INFO, "run", values, "pinned")]


def _in_vain(asked: Sequence[Mapping[str, Scalar]], placement: Placement) -> bool:
    return bool(asked) and placement.device in IN_HOST_MEMORY and all(one.get(PIN) is True for one in asked)
