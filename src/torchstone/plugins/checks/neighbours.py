"""CPU cores busy with other processes: one of them makes a 2-thread step 5 to 15 times slower."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.stats.readings import other_cpu_cores
from torchstone.plugins.checks._cases import TOLERATED_CORES, many, sound
from torchstone.plugins.protocols import Check


class Neighbours:
    """Fires where others used more than 0.15 cores during the windows of more than a tenth of the trials."""

    describes = "other processes busy on the CPU during the trials"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming the worst of its trials."""
        for case_id, _, trials in sound(run):
            used = [cores for trial in trials if (cores := other_cpu_cores(trial)) is not None]
            disturbed = [cores for cores in used if cores > TOLERATED_CORES]
            if many(len(disturbed), len(used)):
                message = (
                    f"other processes kept up to {max(disturbed):.2f} CPU cores busy in {len(disturbed)} of {len(used)}"
                    " trials; one busy process makes a 2-thread step 5 to 15 times slower"
                )
                advice = "stop other processes and measure again"
                yield Finding("neighbours", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = Neighbours()
