"""Which values of a column are best, and which are not significantly different from the best."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.comparing import log_mean, ratio

BEST, SAME = "*", "="


def marks(
    column: Sequence[Estimate | None], *, higher: bool, cases: Sequence[str] = (), rounds: InRounds | None = None
) -> list[str]:
    """Return BEST for the best value, SAME where the interval of the ratio to it holds 1, "" for the others.

    `cases`: the ids of the column's Cases, and `rounds` how they compare on this figure, where one run measured them in
    turn. A column with fewer than two values has no best, and one whose interval is too wide to be shown has no mark.
    """
    column = [None if e is not None and e.is_wide else e for e in column]
    values = [e.value for e in column if e is not None]
    if len(values) < 2:
        return [""] * len(column)
    top = (max if higher else min)(values)
    place = next(at for at, e in enumerate(column) if e is not None and e.value == top)
    best = column[place]

    def same(at: int, one: Estimate) -> bool:
        paired = rounds.ratio(cases[at], cases[place]) if rounds is not None else None
        return paired[1] <= 1.0 <= paired[2] if paired is not None else best is not None and _same(one, best)

    return [
        "" if e is None else BEST if at == place else SAME if same(at, e) else "" for at, e in enumerate(column)
    ]  # fmt: skip


def _same(a: Estimate, b: Estimate) -> bool:
    means = [log_mean(e.value, e.low, e.high, e.trials, e.level) for e in (a, b)]
    if means[0] is None or means[1] is None:
        return a.value == b.value
    low, high = ratio(means[0], means[1])
    return low <= 1.0 <= high
