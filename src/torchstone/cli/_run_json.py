"""The JSON document of a run: its summary, and beside it what is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.analysis.advice.insights import readings
from torchstone.analysis.goodput import goodputs
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.load import SEARCH

if TYPE_CHECKING:
    from torchstone.analysis.compare.ab_course import Course


def whole(run: RunSummary, experiment: Course | None = None) -> Mapping[str, Any]:
    """Return the summary with the keys of its readings: advice, convergence, performance_…; of an ab also `experiment`.

    A search for goodput has `goodput`.
    """
    told: dict[str, Any] = {"experiment": experiment} if experiment is not None else {}
    if run.command[:1] == (SEARCH,):
        told["goodput"] = goodputs(run)
    return {**msgspec.structs.asdict(run), **msgspec.structs.asdict(readings(run)), **told}
