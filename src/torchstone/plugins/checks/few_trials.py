"""Too few trials: the trial is the replicate, and two of the same code differ by 12 to 22 %."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

ENOUGH = 3
_SAID = {
    1: (Severity.WARNING, "one trial: the variation between trials is not known"),
    2: (Severity.INFO, "2 trials: their 95 % confidence intervals are wide (Student's t is 12.7; with 3 trials 4.3)"),
}


class FewTrials:
    """Fires on one trial (no interval at all) and, milder, on two (an interval too wide to use)."""

    describes = "a case with fewer than 3 successful trials"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for one trial of a Case, information for two."""
        for case_id, _, trials in sound(run):
            if len(trials) >= ENOUGH:
                continue
            severity, message = _SAID[len(trials)]
            yield Finding("few_trials", severity, message, _advice(run), case_id)


def _advice(run: Run) -> str:
    if is_imported(run):
        return f"the tool measured in one process; `torchstone run` uses {ENOUGH} fresh processes"
    if run.head.procedure.epochs is not None:
        return f"a training is one trial; `torchstone run` measures the same settings in {ENOUGH} trials"
    asked = run.head.procedure.trials
    if asked is None:
        return "the time limit ended the run before more were taken: give it more, --within 5m"
    if asked < ENOUGH:
        if run.head.plan.cases[0].workload.is_loop:
            return f"run the script {ENOUGH} times: `torchstone history latest` shows how far its runs differ"
        if run.head.procedure.isolation == "inline":
            again = f"torchstone run --model py:FILE.py:FUNCTION --trials {ENOUGH}"
            return f"measure with trials={ENOUGH}, or in fresh processes: {again}"
        return f"measure again with --trials {ENOUGH}"
    return f"{asked} trials were requested: see how the others ended, and measure again"


PLUGIN: Check = FewTrials()
