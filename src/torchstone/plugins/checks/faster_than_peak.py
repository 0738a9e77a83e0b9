"""More operations a second than the dense peak of the device's vendor, or a peak that is not the dense one."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.datasheet import Peak
from torchstone.core.figures import raw
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import again, sound
from torchstone.plugins.checks._peak import peak_of
from torchstone.plugins.protocols import Check

# Boost clocks pass the datasheet's by some percent; Winograd's convolutions do 3 × 3 filters with 2.25 times fewer
# multiplications than are counted (Lavin & Gray, CVPR 2016). Beyond that, nothing explains it.
TOLERANCE, NEVER = 1.10, 2.5
_TWICE = (1.9, 2.1)


class FasterThanPeak:
    """Fires on achieved operations above the dense peak of the datasheet, on an MFU above 1, on a sparse peak."""

    describes = "more operations per second than the device's peak, or an MFU that uses the sparse peak"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding for each excess of a Case: an error where nothing can explain it."""
        for case_id, case, trials in sound(run):
            peak = peak_of(run, case)
            seen = dict.fromkeys(found for trial in trials for found in _excess(case, trial, peak))
            for severity, message in seen:
                here = "check for a missing synchronisation, or for operations counted but not executed"
                there = "check for a missing synchronisation, operations counted twice, or the peak of another card"
                yield Finding("faster_than_peak", severity, message, again(run, here, there), case_id)


def _excess(case: Case, trial: Trial, peak: Peak | None) -> Iterator[tuple[Severity, str]]:
    claimed = claims(trial)
    flops, steps = trial.values("flops", Stage.SETUP), raw(trial, "step_time_s", False)
    achieved = flops[0] * len(steps) / sum(steps) if flops and sum(steps) > 0.0 else claimed.get("achieved_flops")
    mfu = claimed.get("mfu")
    if mfu is not None and mfu > 1.0:
        yield Severity.ERROR, f"reported MFU is {percent(mfu)}, above 100 %"
    if peak is None:
        return
    most = peak.value * case.placement.devices
    if achieved is not None and achieved > TOLERANCE * most:
        severity = Severity.ERROR if achieved > NEVER * most else Severity.WARNING
        told = f"achieved {quantity(achieved, 'FLOP/s')}, above the dense peak of {quantity(most, 'FLOP/s')}"
        yield severity, f"{told} ({peak.source})"
    said = claimed.get("peak_flops")
    if said is not None and said > TOLERANCE * peak.value:
        sparse = " (with 2:4 sparsity)" if peak.sparse and abs(said / peak.sparse - 1.0) < 0.05 else ""
        told = f"the peak used is {quantity(said, 'FLOP/s')}{sparse}"
        yield Severity.WARNING, f"{told}; the dense peak is {quantity(peak.value, 'FLOP/s')} ({peak.source})"
    elif mfu and achieved and _TWICE[0] <= achieved / most / mfu <= _TWICE[1]:
        share = percent(achieved / most, 1)
        told = f"reported MFU is {percent(mfu, 1)}, but {quantity(achieved, 'FLOP/s')} is {share} of the peak"
        yield Severity.WARNING, f"{told}: the sparse peak was used, or a multiply-add was counted as one operation"


PLUGIN: Check = FasterThanPeak()
