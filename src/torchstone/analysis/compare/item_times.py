"""The time of an item on either side: the ratio of throughputs turned over, and who takes less."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.compared_figures import primary
from torchstone.core.schema.comparison import Judgement


class ItemTimeRatio(msgspec.Struct, frozen=True):
    """Candidate ÷ baseline of the time of an item in one Case, with its interval.

    `faster`: the letter of who takes less; None where both are the same, or it is unclear (`verdict`).
    """

    case: str
    baseline: str
    candidate: str
    ratio: float
    low: float
    high: float
    verdict: Judgement
    faster: str | None


def item_time_ratios(compared: ComparedRuns) -> Iterator[ItemTimeRatio]:
    """Yield one for each candidate and Case whose rate is compared, in the order in which they were judged."""
    letters = {one.label: one.letter for one in compared.participants}
    for one in compared.judged:
        found, ratio = one.comparison, one.comparison.ratio
        if found.metric != primary(one.task) or ratio is None:
            continue
        a, b = letters[found.baseline.label], letters[found.candidate.label]
        low, high = ratio.low or ratio.value, ratio.high or ratio.value
        faster = {Judgement.BETTER: b, Judgement.WORSE: a}.get(found.verdict)
        yield ItemTimeRatio(one.case, a, b, 1.0 / ratio.value, 1.0 / high, 1.0 / low, found.verdict, faster)
