"""Which devices that a run was asked for are not on its machine, and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.trial import Status


class Absent(msgspec.Struct, frozen=True):
    """A device that is not here, as its Placement is written, the reason, and how many Cases it would have had."""

    device: str
    why: str
    cases: int


def on_devices_here(run: RunSummary) -> list[CaseSummary]:
    """Return the Cases whose device the machine has."""
    return [case for case in run.cases if not _is_absent(case, run)]


def absent(run: RunSummary) -> list[Absent]:
    """Return the devices of the other Cases, in the order asked for."""
    found: dict[str, list[CaseSummary]] = {}
    for case in run.cases:
        if _is_absent(case, run):
            found.setdefault(str(case.placement), []).append(case)
    return [Absent(device, _why(cases), len(cases)) for device, cases in found.items()]


def _is_absent(case: CaseSummary, run: RunSummary) -> bool:
    ends = {trial.outcome.status for trial in case.trials}
    devices, place = run.machine.devices, case.placement
    return bool(devices) and ends == {Status.UNSUPPORTED} and run.machine.device(place.device, place.index) is None


def _why(cases: Sequence[CaseSummary]) -> str:
    return cases[0].trials[0].outcome.message or "unsupported"
