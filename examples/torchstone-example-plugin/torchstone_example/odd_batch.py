"""A batch size that is no multiple of 8 leaves part of a tensor core idle."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.extend import Check, Finding, Run, Severity

_MULTIPLE = 8


class OddBatch(Check):
    """Looks at the plan alone."""

    describes = "example: a batch size that is no multiple of 8"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a word for each such case that was measured."""
        measured = {trial.case_id for trial in run.trials if trial.measurements}
        for case in run.head.plan.cases:
            size = case.configuration.get("batch_size")
            if case.case_id in measured and isinstance(size, int) and size % _MULTIPLE:
                better = _MULTIPLE * (size // _MULTIPLE + 1)
                said = f"batch_size={size} is no multiple of {_MULTIPLE}"
                yield Finding("odd_batch", Severity.INFO, said, f"try batch_size={better}", case.case_id)


PLUGIN: Check = OddBatch()
