"""Warm-up ended on its budget, not because the steps had become steady."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.checks._cases import sound
from torchstone.extend import Check
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.run import Run
from torchstone.terms.trial import Trial

_DOUBTFUL_STEPS = 50


class NotSettled:
    """Fires on the fact `warmup_settled` of a trial being false."""

    describes = "steady steps that began before warm-up had settled"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with how many of its trials were concerned."""
        for case_id, _, trials in sound(run):
            restless = [t for t in trials if t.facts.get("warmup_settled") is False]
            if restless:
                message = f"steps still changed when warm-up ended, in {len(restless)} of {len(trials)} trials"
                advice = f"measure again with --warmup {_more(run, restless)}"
                yield Finding("not_settled", Severity.WARNING, message, advice, case_id)


def _more(run: Run, trials: list[Trial]) -> int:
    """Return twice the warm-up steps that were asked for or done."""
    done = [t.facts.get("warmup_steps") for t in trials]
    counts = [n for n in (*done, run.head.procedure.warmup) if isinstance(n, int) and n > 0]
    return 2 * max(counts) if counts else _DOUBTFUL_STEPS


PLUGIN: Check = NotSettled()
