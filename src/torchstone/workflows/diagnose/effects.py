"""What other settings do beside being faster: peak memory, and whether the same is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from torchstone.core.figures import figures
from torchstone.core.fingerprints import fingerprint_of, moved
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.diagnosis import BROKEN_LOSS
from torchstone.core.schema.memory_figures import memory_figures
from torchstone.core.schema.trial import Status, Trial


def effects_of(
    trials: Sequence[Trial], settings: Mapping[str, Scalar], device: str
) -> tuple[float | None, float | None, str | None]:
    """Return (peak memory of side B in bytes, times that of A, what it does to the loss) from an experiment's trials.

    `device`: the kind (cpu, cuda, …) that they ran on.
    """
    good = [trial for trial in trials if trial.outcome.status == Status.OK]
    sides = [[trial for trial in good if trial.facts.get("side") == side] for side in "AB"]
    peaks = [_peak(side, memory_figures(device)) for side in sides]
    ratio = peaks[1] / peaks[0] if peaks[0] and peaks[1] else None
    return peaks[1], ratio, _loss(sides, settings)


def _peak(trials: Sequence[Trial], names: Sequence[str]) -> float | None:
    for name in names:
        values = [found[name] for trial in trials if name in (found := figures(trial).values)]
        if values:
            return median(values)
    return None


def _loss(sides: Sequence[Sequence[Trial]], settings: Mapping[str, Scalar]) -> str | None:
    changing = [axis for axis in settings if axis in AXES and AXES[axis].changes_result]
    prints = [fingerprint_of(side) for side in sides]
    broken = [not all(map(math.isfinite, found)) for found in prints]
    if any(broken):  # it comes before all else: who computes no numbers is no faster
        return "the loss is NaN or infinite with the present settings" if broken[0] else BROKEN_LOSS
    if any(axis in ("batch_size", "grad_accumulation") for axis in changing):
        return f"another result: {', '.join(changing)}"
    if "feed" in settings:
        return "other batches"
    pairs = list(zip(*prints, strict=False))
    if not pairs:
        return None
    if moved(*prints) is None:
        return "the same"
    apart = max(abs(b - a) / max(abs(a), 1e-12) for a, b in pairs)
    return f"{100 * apart:.2g} % apart in {len(pairs)} steps"
