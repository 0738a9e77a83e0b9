"""Warm-up that ended on its budget before the steps were steady."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.plugins.checks._cases import option, sound, windows
from torchstone.plugins.protocols import Check

_DOUBTFUL_STEPS = 50
_TOLERANCE = 0.03


def _still_warming(trial: Trial) -> bool:
    """Tell whether the budget ended warm-up, and the steady steps bear it out: their first third slower than the last.

    With few or noisy steps, warm-up often ends unsettled by chance alone; what was measured then decides.
    """
    if trial.facts.get("warmup_settled") is not False:
        return False
    for _, steps in windows(trial):
        third = max(1, len(steps) // 3)
        if len(steps) > 1 and median(steps[:third]) > (1.0 + _TOLERANCE) * median(steps[-third:]):
            return True
    return False


class NotSettled:
    """Fires where warm-up ended on its budget and the steady steps still got faster."""

    describes = "steady steps that began before warm-up had ended"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with how many of its trials were concerned."""
        for case_id, _, trials in sound(run):
            restless = [t for t in trials if _still_warming(t)]
            if len(restless) > len(trials) / 2:
                message = f"steps kept getting faster after warm-up, in {len(restless)} of {len(trials)} trials"
                advice = f"measure again with {option(run.head.procedure, 'warmup', _more(run, restless))}"
                yield Finding("not_settled", Severity.WARNING, message, advice, case_id)


def _more(run: Run, trials: list[Trial]) -> int:
    """Return twice the warm-up steps that were asked for or done."""
    done = [t.facts.get("warmup_steps") for t in trials]
    counts = [n for n in (*done, run.head.procedure.warmup) if isinstance(n, int) and n > 0]
    return 2 * max(counts) if counts else _DOUBTFUL_STEPS


PLUGIN: Check = NotSettled()
