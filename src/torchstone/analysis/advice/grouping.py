"""Which Cases of a run are looked at together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.ranks import BACKEND, is_distributed
from torchstone.core.schema.trial import Status


def groups(cases: Sequence[CaseSummary]) -> list[list[CaseSummary]]:
    """Return the Cases of each workload and device together."""
    found: dict[tuple[str, ...], list[CaseSummary]] = {}
    for case in cases:
        key = (str(case.workload.task), case.workload.model, case.workload.data, str(case.placement))
        found.setdefault(key, []).append(case)
    return list(found.values())


def over_devices(cases: Sequence[CaseSummary]) -> list[list[CaseSummary]]:
    """Return the Cases of each workload together, whatever device they ran on."""
    found: dict[tuple[str, ...], list[CaseSummary]] = {}
    for case in cases:
        key = (str(case.workload.task), case.workload.model, case.workload.data)
        found.setdefault(key, []).append(case)
    return list(found.values())


def equal_but_for(axes: Sequence[str], cases: Sequence[CaseSummary]) -> list[list[CaseSummary]]:
    """Return the Cases of one workload and device that differ in these axes alone, together."""
    found: dict[tuple[tuple[str, object], ...], list[CaseSummary]] = {}
    for case in cases:
        rest = tuple(sorted((name, value) for name, value in case.configuration.items() if name not in axes))
        found.setdefault(rest, []).append(case)
    return list(found.values())


def varying_axes(cases: Sequence[CaseSummary]) -> list[str]:
    """Return the axes that vary, in the order of the Configuration: the user's; and the batch size in any case.

    A program has no settings but those that were tried: the first case may have none of them.
    """
    told = cases if cases[0].workload.is_program else cases[:1]
    every = dict.fromkeys(name for case in told for name in case.configuration)
    names = [n for n in every if len({c.configuration.get(n) for c in cases}) > 1]
    through = {c.configuration.get(BACKEND) for c in cases if is_distributed(c.configuration)}
    if BACKEND in names and len(through) == 1:  # it varies only as one process has none
        names.remove(BACKEND)
    return names if "batch_size" in names or "batch_size" not in cases[0].configuration else ["batch_size", *names]


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
