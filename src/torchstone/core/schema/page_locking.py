"""Page-locked memory on a device that works in the host's own: torch's DataLoader warns there, and goes on without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchstone.core.messages import Values
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Finding, Severity

PIN = "pin_memory"
WITHOUT_EFFECT = "setting_without_effect"  # what the finding on it is called
IN_HOST_MEMORY = ("cpu", "mps")  # nothing is transferred to them


def effective(asked: Sequence[Mapping[str, Scalar]], placement: Placement) -> Sequence[Mapping[str, Scalar]]:
    """Return Configurations as they are measured there: not pinned, where all ask for it and it has no effect.

    Where some ask for it and some do not, it is what the user asks about: all stay, and the device refuses with its
    reason what would be measured twice.
    """
    return [{**one, PIN: False} for one in asked] if _in_vain(asked, placement) else asked


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
