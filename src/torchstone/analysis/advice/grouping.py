"""Which Cases of a run are looked at together."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.ranks import BACKEND, is_distributed


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
