"""A few words for each Case of a run, as people tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.case import model_name


def labels(cases: Sequence[CaseSummary]) -> dict[str, str]:
    """Return task, model, batch size and the other axes that vary, by the id of the Case."""
    found: dict[str, str] = {}
    for group in groups(cases):
        axes = varying_axes(group)
        for case in group:
            values = [f"{axis} {case.configuration.get(axis)}" for axis in axes]
            found[case.case_id] = ", ".join((f"{case.workload.task} {model_name(case.workload.model)}", *values))
    return found
