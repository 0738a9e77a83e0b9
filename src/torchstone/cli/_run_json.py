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
from torchstone.report.diagnosis_messages import with_texts


def whole(run: RunSummary) -> Mapping[str, Any]:
    """Return the summary with the keys of its readings: advice, convergence, performance_…; a goodput has `goodput`.

    What is said has its English text beside its id and values.
    """
    told: dict[str, Any] = {}
    found = msgspec.structs.asdict(readings(run))
    if isinstance(run.answer, Diagnosis):
        told["answer"] = diagnosis_json(run.answer)
    elif run.answer is not None:
        told["answer"] = with_texts(run.answer)
    if run.command[:1] == (SEARCH,):
        told["goodput"] = goodputs(run)
    cases = [{**msgspec.structs.asdict(case), "bound": with_texts(case.bound)} for case in run.cases]
    return {**msgspec.structs.asdict(run), "cases": cases, **found, "advice": with_texts(found["advice"]), **told}


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis; each cause with what its removal could gain at most."""
    told: dict[str, Any] = with_texts(diagnosis)
    for shown, cause in zip(told["causes"], diagnosis.causes, strict=True):
        shown["bound"] = cause.bound
    told["fed"] = {name: value for name, value in told["fed"].items() if value not in (None, [], {})}  # what is known
    return told
