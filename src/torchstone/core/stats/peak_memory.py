"""Peak memory of a step at batch sizes not yet tried, from a few that were."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

_EXTRAPOLATED = 0.03  # of the part that was not measured: rounding of the allocator, workspaces that grow in steps


class Peak(NamedTuple):
    """A predicted peak, and bounds within which it is expected, in bytes."""

    value: float
    low: float
    high: float


def predict_peak(points: Sequence[tuple[float, float]], batch: float) -> Peak | None:
    """Return the peak (bytes) at `batch` from measured (batch, peak in bytes); None under two different batches.

    Peak memory is affine in the batch: weights, gradients and optimizer state, plus the activations of each item
    (Gao et al., Estimating GPU memory consumption of deep learning models, ESEC/FSE 2020; DeepSpeed's autotuner
    computes its largest micro-batch so). The line goes through the two largest batches, where fixed blocks and small
    workspaces weigh least; the slopes of the other pairs, and 3 % of what was not measured, give the bounds.
    """
    largest: dict[float, float] = {}
    for size, peak in points:
        largest[size] = max(peak, largest.get(size, 0.0))
    if len(largest) < 2:
        return None
    sizes = sorted(largest)
    # a larger batch needs no less: where one measured less, a workspace was left out that may be taken again
    peaks = list(itertools.accumulate((largest[size] for size in sizes), max))
    slopes = [
        (b - a) / (y - x) for (x, y), (a, b) in zip(itertools.pairwise(sizes), itertools.pairwise(peaks), strict=True)
    ]
    beyond = batch - sizes[-1]
    if beyond <= 0.0:
        value = _between(sizes, peaks, slopes, batch)
        return Peak(value, value * (1.0 - _EXTRAPOLATED), value * (1.0 + _EXTRAPOLATED))
    local, overall = slopes[-1], (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
    # a slope from two points close together says little: it widens the bounds by no more than the local one doubled
    widest = min(max(slopes), 2.0 * local) if local > 0.0 else max(slopes)
    margin = _EXTRAPOLATED * local * beyond
    low, high = min(local, overall) * beyond - margin, widest * beyond + margin
    return Peak(peaks[-1] + local * beyond, peaks[-1] + low, peaks[-1] + high)


def _between(sizes: Sequence[float], peaks: Sequence[float], slopes: Sequence[float], batch: float) -> float:
    for size, peak, slope in reversed(list(zip(sizes, peaks, slopes, strict=False))):
        if batch >= size:
            return peak + slope * (batch - size)
    return peaks[0]
