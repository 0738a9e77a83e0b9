"""What the pairs so far tell of how to spend time: on more turns of a pair, or on more pairs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median, variance

from torchstone.workflows.ab.budget import Pace, Spread
from torchstone.workflows.ab.pair import Pair

_FLOOR = 0.01  # of the variance within: so much pairs differ by, whatever few of them say


def spread_of(pairs: Sequence[Pair]) -> Spread | None:
    """Return the variances within and between pairs; None of fewer than three whose own error is known."""
    sound = [(len(pair.logs), found) for pair in pairs if (found := pair.location) is not None and found.error > 0.0]
    sound = [(couples, found) for couples, found in sound if couples >= 4]
    if len(sound) < 3:
        return None
    within = fmean(found.error**2 * couples for couples, found in sound)
    seen = variance([found.value for _, found in sound])
    return Spread(within, max(seen - fmean(found.error**2 for _, found in sound), _FLOOR * within))


def pace_of(pairs: Sequence[Pair]) -> Pace | None:
    """Return what a pair costs, by the last five that took turns: a machine may have become slower since the first."""
    recent = [pair for pair in pairs if pair.logs][-5:]
    if not recent:
        return None
    couple_s = median(pair.spans.turns_s / len(pair.logs) for pair in recent)
    warm_s, end_s = (median(getattr(pair.spans, name) for pair in recent) for name in ("warm_s", "end_s"))
    return Pace(warm_s, max(couple_s, 1e-6), end_s)
