"""A device that disappeared while a trial ran."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import DEVICE_LOST, Status, Trial
from torchstone.plugins.checks._cases import taken
from torchstone.plugins.protocols import Check

_LOGS = {"cuda": "`dmesg | grep -i xid`", "rocm": "`dmesg | grep -i amdgpu`", "xpu": "`dmesg | grep -iE 'i915|xe '`"}


class DeviceLost:
    """Fires on a Case with a trial whose device was lost; the advice knows whether it worked again afterwards."""

    describes = "a device that disappeared while a trial ran"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case."""
        every = list(taken(run))
        for case_id, case, trials in every:
            lost = [t for t in trials if (t.outcome.message or "").startswith(DEVICE_LOST)]
            if lost:
                same = {other_id for other_id, other, _ in every if other.placement == case.placement}
                back = any(t.order > lost[0].order and t.case_id in same and _ended_well(t) for t in run.trials)
                message = f"{case.placement} was lost in {len(lost)} of {len(trials)} trials"
                yield Finding("device_lost", Severity.WARNING, message, _advice(case, back=back), case_id)


def _ended_well(trial: Trial) -> bool:
    return trial.outcome.status == Status.OK


def _advice(case: Case, *, back: bool) -> str:
    if back:
        again = "a kernel of this case failed; the device worked again afterwards"
        return f"{again}: measure it with CUDA_LAUNCH_BLOCKING=1, so that the error names the operation"
    log = _LOGS.get(case.placement.device, "`dmesg`")
    return f"no later trial on it succeeded: see {log}, reset the device or reboot, and measure again"


PLUGIN: Check = DeviceLost()
