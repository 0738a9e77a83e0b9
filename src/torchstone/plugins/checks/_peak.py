"""The dense peak of the device that a Case was measured on, by its vendor's datasheet."""

from __future__ import annotations

from torchstone.core.datasheet import Peak, dense_peak_flops
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.run import Run

_ANY = ("fp32", "tf32", "bf16", "fp16")


def peak_of(run: Run, case: Case) -> Peak | None:
    """Return the peak of one device, in FLOP/s, at the Case's precision; None where it is not known."""
    device = run.head.machine.device(case.placement.device, case.placement.index)
    if device is None:
        return None
    precision = str(case.configuration.get("precision"))
    # Others may leave TF32 on for what they call fp32, and do not always say what autocast does.
    asked = _ANY if is_imported(run) or precision not in _ANY else (precision,)
    found = [dense_peak_flops(device.name, each, device.memory_bytes) for each in asked]
    return max((peak for peak in found if peak is not None), key=lambda peak: peak.value, default=None)
