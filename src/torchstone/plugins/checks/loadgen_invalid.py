"""MLPerf LoadGen calls a load INVALID: its reasons, in its words."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.load import SERVER
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import longer, sound
from torchstone.plugins.protocols import Check

_VALID = "VALID"


class LoadgenInvalid:
    """Fires where LoadGen does not call every load of a Case VALID."""

    describes = "a load that MLPerf LoadGen calls INVALID"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error where no load of a Case is VALID, a warning where some are."""
        for case_id, case, trials in sound(run):
            if case.workload.task != Task.LOADGEN:
                continue
            bad = [t for t in trials if t.facts.get("loadgen_result") != _VALID]
            if bad:
                severity = Severity.ERROR if len(bad) == len(trials) else Severity.WARNING
                told = str(bad[0].facts.get("loadgen_reasons") or "it gave no result").rstrip(".")
                errors = bad[0].facts.get("loadgen_errors")
                noted = f"; its errors: {errors}" if errors else ""
                message = f"LoadGen: INVALID in {len(bad)} of {len(trials)} loads: {told}{noted}"
                yield Finding("loadgen_invalid", severity, message, _advice(run, case), case_id)


def _advice(run: Run, case: Case) -> str:
    if case.configuration.get("scenario") == SERVER:
        return f"lower target_qps, raise latency_bound_s, or measure longer: {longer(run.head.procedure)}"
    return f"measure longer: {longer(run.head.procedure)}"


PLUGIN: Check = LoadgenInvalid()
