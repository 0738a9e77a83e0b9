"""CPU time that the hypervisor gave to other virtual machines."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.stats.readings import steal_share
from torchstone.core.units import percent
from torchstone.plugins.checks._cases import many, option, sound
from torchstone.plugins.protocols import Check

TOLERATED = 0.02


class Steal:
    """Fires where the hypervisor took more than 2 % of the CPU time in the windows of more than a tenth of trials."""

    describes = "CPU time stolen by other virtual machines"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming the worst of its trials."""
        for case_id, _, trials in sound(run):
            judged = [t for t in trials if t.disturbance is None or t.disturbed]
            shares = [share for trial in judged if (share := steal_share(trial)) is not None]
            stolen = [share for share in shares if share > TOLERATED]
            if many(len(stolen), len(trials)):
                message = (
                    f"the hypervisor gave up to {percent(max(stolen), 1)} of the CPU time to other virtual machines in "
                    f"{len(stolen)} of {len(trials)} trials"
                )
                procedure = run.head.procedure
                more = "--within 10m"
                if not procedure.in_rounds:
                    more = option(procedure, "trials", max(5, 2 * procedure.repetitions))
                spread = f", or take more trials: {more}" if procedure.fit is None else ""
                advice = f"measure when the host is less busy, or on a dedicated one{spread}"
                yield Finding("steal", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = Steal()
