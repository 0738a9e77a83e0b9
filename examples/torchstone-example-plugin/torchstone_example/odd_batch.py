"""A batch size that is no multiple of 8 leaves part of a tensor core idle."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.extend import Finding, Run, Severity, Words, check

_MULTIPLE = 8
_WORDS = {"": Words("batch_size={batch_size} is no multiple of 8", "try batch_size={better}")}


@check("example: a batch size that is no multiple of 8", _WORDS)
def odd_batch(run: Run) -> Iterator[Finding]:
    """Look at the plan alone: yield a word for each such case that was measured."""
    measured = {trial.case_id for trial in run.trials if trial.measurements}
    for case in run.head.plan.cases:
        size = case.configuration.get("batch_size")
        if case.case_id in measured and isinstance(size, int) and size % _MULTIPLE:
            values = {"batch_size": size, "better": _MULTIPLE * (size // _MULTIPLE + 1)}
            yield Finding("odd_batch", Severity.INFO, case.case_id, values)
