"""Processes on the device that are not the trial."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.stats.readings import gauge
from torchstone.plugins.checks._cases import many, sound
from torchstone.plugins.protocols import Check


class OtherProcesses:
    """Fires where another process held the device during the windows of more than a tenth of the trials."""

    describes = "other processes on the device during a trial"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the most processes seen."""
        for case_id, case, trials in sound(run):
            counts = [found[0] for trial in trials if (found := gauge(trial, "device_other_processes")) is not None]
            beside = [count for count in counts if count > 0]
            if many(len(beside), len(counts)):
                most = int(max(beside))
                message = (
                    f"{most} other process{'es' * (most != 1)} used {case.placement} during {len(beside)} of "
                    f"{len(counts)} trials"
                )
                yield Finding("other_processes", Severity.WARNING, message, _advice(run, case), case_id)


def _advice(run: Run, case: Case) -> str:
    """Name another device of that kind where there is one."""
    place = case.placement
    free = [d for d in run.head.machine.devices if d.kind == place.device and d.index != place.index]
    other = f", or measure on another device with --device {free[0].kind}:{free[0].index}" if free else ""
    return f"stop them (nvidia-smi, rocm-smi or xpu-smi lists them){other}"


PLUGIN: Check = OtherProcesses()
