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
    known = sorted(largest.items())
    if len(known) < 2:
        return None
    slopes = [max(0.0, (b[1] - a[1]) / (b[0] - a[0])) for a, b in itertools.pairwise(known)]
    base, top = known[0], known[-1]
    if batch <= top[0]:
        value = _between(known, slopes, batch)
        return Peak(value, value * (1.0 - _EXTRAPOLATED), value * (1.0 + _EXTRAPOLATED))
    slopes.append(max(0.0, (top[1] - base[1]) / (top[0] - base[0])))
    beyond = batch - top[0]
    value = top[1] + slopes[-2] * beyond
    # a slope from two points close together says little: it widens the bounds by no more than the local one doubled
    widest = min(max(slopes), 2.0 * slopes[-2]) if slopes[-2] > 0.0 else max(slopes)
    margin = _EXTRAPOLATED * slopes[-2] * beyond
    return Peak(value, top[1] + min(slopes[-2:]) * beyond - margin, top[1] + widest * beyond + margin)


def _between(known: Sequence[tuple[float, float]], slopes: Sequence[float], batch: float) -> float:
    for (size, peak), slope in zip(reversed(known[:-1]), reversed(slopes), strict=True):
        if batch >= size:
            return peak + slope * (batch - size)
    return known[0][1]
