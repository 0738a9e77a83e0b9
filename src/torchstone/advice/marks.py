"""Which values of a column are best, and which cannot be told from the best."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.stats.ratio import log_mean, ratio
from torchstone.terms.estimate import Estimate

BEST, SAME = "*", "="


def marks(column: Sequence[Estimate | None], *, higher: bool) -> list[str]:
    """Return BEST for the best value, SAME where the interval of the ratio to it holds 1, "" for the others.

    A column with fewer than two values has no best, and one whose interval is too wide to be shown has no mark.
    """
    column = [None if e is not None and e.is_wide else e for e in column]
    values = [e.value for e in column if e is not None]
    if len(values) < 2:
        return [""] * len(column)
    top = (max if higher else min)(values)
    best = next(e for e in column if e is not None and e.value == top)
    return ["" if e is None else BEST if e is best else SAME if _same(e, best) else "" for e in column]


def _same(a: Estimate, b: Estimate) -> bool:
    means = [log_mean(e.value, e.low, e.high, e.trials, e.level) for e in (a, b)]
    if means[0] is None or means[1] is None:
        return a.value == b.value
    low, high = ratio(means[0], means[1])
    return low <= 1.0 <= high
