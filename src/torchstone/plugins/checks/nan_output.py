"""An inference output that is NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import setting, sound
from torchstone.plugins.protocols import Check


class NanOutput:
    """Fires on fingerprints of an inference that are NaN, or infinite: mean and deviation of its first output.

    One NaN among the numbers makes the mean one. An infinite mean without NaN may be meant: what a model masks out it
    often sets to minus infinity.
    """

    describes = "an inference output that is NaN or infinite"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error a Case whose output is NaN, a warning for one that is infinite."""
        for case_id, case, trials in sound(run):
            if case.workload.task != Task.INFER:
                continue
            prints = [print_ for trial in trials if (print_ := raw(trial, "fingerprint"))]
            lost = sum(math.isnan(print_[0]) for print_ in prints)
            infinite = sum(math.isinf(print_[0]) for print_ in prints)
            if lost:
                message = f"the mean of the output is NaN in {lost} of {len(prints)} trials"
                yield Finding("nan_output", Severity.ERROR, message, _advice(case, run), case_id)
            elif infinite:
                message = f"the output is infinite in {infinite} of {len(prints)} trials"
                advice = f"unless the model masks its output with infinity: {_advice(case, run)}"
                yield Finding("nan_output", Severity.WARNING, message, advice, case_id)


def _advice(case: Case, run: Run) -> str:
    if case.configuration.get("precision") == "fp16":
        return f"measure again with {setting(run, 'precision', 'bf16')}, which has the range of fp32"
    return "check for NaN weights, a division by zero or a logarithm of 0 in the model, and inputs out of range"


PLUGIN: Check = NanOutput()
