"""What the types of the schema do not say of a record, which may be a stranger's: names that must be there, numbers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Training

_WHOLE, _LARGEST = 2**63, 1e40  # of an axis; of any other number (storage/bounds.py)


def _check_case(case: Case) -> None:
    """Raise UsageError for a Case with an axis that has a word or a size where a number of use must be."""
    for name, value in case.configuration.items():
        kind = AXES[name].kind if name in AXES else ""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if (number and not abs(value) < _WHOLE) or (kind in ("int", "float") and value is not None and not number):  # type: ignore[arg-type]
            said = repr(value)[:40] if not isinstance(value, int) else "a number of too many digits"
            raise UsageError(f"axis {name[:80]!r} has {said}: not a number of use")


def check_run(run: Run) -> Run:
    """Return the run. Raises UsageError where it names a Case that its plan has not, or a number that none can be."""
    for case in run.head.plan.cases:
        _check_case(case)
    known = {case.case_id for case in run.head.plan.cases}
    for case_id in _named(run):
        if case_id not in known:
            raise UsageError(f"case {case_id[:80]!r} is named in its result and is not in the run's plan")
    head, usual = run.head, run.head.usual
    for term in (head.machine, head.machines, head.procedure, head.tune, head.ab, usual, run.answer):
        if not all(-_LARGEST < value < _LARGEST for value in _numbers(msgspec.to_builtins(term))):
            raise UsageError(f"a number of {type(term).__name__} is no number of use: not finite, or too large")
    if usual is not None and not 0.0 < usual.deviation < _LARGEST:
        raise UsageError(f"the usual deviation {usual.deviation!r}: above 0")
    return run


def _numbers(value: object) -> Iterator[int | float]:
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)


def _named(run: Run) -> Iterator[str]:
    answer = run.answer
    if isinstance(answer, AbResult):
        yield from (answer.comparison.baseline.case_id, answer.comparison.candidate.case_id)
    elif isinstance(answer, Diagnosis):
        yield answer.case.case_id
    elif isinstance(answer, Training) and len(run.head.plan.cases) != 1:
        raise UsageError("its result is of a training, which has one case")
    elif isinstance(answer, TuneResult):
        named = (answer.recommended, answer.highest_throughput, answer.best_efficiency, answer.present)
        yield from (one.case_id for one in (*named, *answer.pareto) if one is not None)
