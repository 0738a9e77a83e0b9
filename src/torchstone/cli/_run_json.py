"""The JSON document of a run: its summary, and beside it what is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.analysis.advice.insights import readings
from torchstone.analysis.goodput import goodputs
from torchstone.analysis.summary import RunSummary
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.load import SEARCH


def whole(run: RunSummary) -> Mapping[str, Any]:
    """Return the summary with the keys of its readings: advice, convergence, performance_…; a goodput has `goodput`."""
    told: dict[str, Any] = {}
    if isinstance(run.answer, Diagnosis):
        told["answer"] = diagnosis_json(run.answer)
    if run.command[:1] == (SEARCH,):
        told["goodput"] = goodputs(run)
    return {**msgspec.structs.asdict(run), **msgspec.structs.asdict(readings(run)), **told}


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis; each cause with what its removal could gain at most."""
    causes = [{**msgspec.structs.asdict(cause), "bound": cause.bound} for cause in diagnosis.causes]
    return {**msgspec.to_builtins(diagnosis), "causes": causes}
