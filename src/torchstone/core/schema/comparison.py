"""Comparison: one figure of two Cases, the estimated ratio, and its verdict."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from torchstone.core.messages import not_compared
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Estimate, Finding


class Judgement(StrEnum):
    """The verdict of a Comparison, about the candidate, against an equivalence margin."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # the whole interval lies within the margin
    UNCLEAR = "unclear"  # the interval reaches from within the margin or across 1 to beyond it
    NOT_COMPARABLE = "not_comparable"  # the two do not compute the same thing, or one has no figure


class Differing(msgspec.Struct, frozen=True):
    """One thing in which the sides differ beside what is compared. `matters`: what it does to fairness, if anything.

    Of a check the values are its findings; `unit`: of numbers that have one.
    """

    what: str  # "torch", "driver", "precision", "neighbours", …
    baseline: Scalar | Finding
    candidate: Scalar | Finding
    matters: Statement | None = None
    unit: str | None = None


class Side(msgspec.Struct, frozen=True):
    """One side of a Comparison: what it is called, and which Case of which run it is."""

    label: str
    run_id: str
    case_id: str


class Rules(msgspec.Struct, frozen=True):
    """The rules of a live comparison: when to stop, and what may be said then."""

    margin: float = 0.02  # relative difference that does not matter
    false_alarms: float = 0.01  # bound on the chance of better or worse where nothing differs, over all looks together
    budget_s: float = 60.0  # most time, from the start of the first template to the last turn
    seed: int = 0


class OtherThreads(msgspec.Struct, frozen=True):
    """What a few pairs with another number of threads told beside an unclear comparison.

    `pairs`: so many were taken; `pairs_needed`: so many in all would settle it, with a power of 80 %, and `within_s` is
    what they would take.
    """

    threads: int
    pairs: int
    ratio: float
    pairs_needed: int
    within_s: float


class Comparison(msgspec.Struct, frozen=True):
    """`ratio` is candidate ÷ baseline of the figure `metric`; None where there is nothing to divide."""

    baseline: Side
    candidate: Side
    metric: str
    ratio: Estimate | None
    verdict: Judgement
    margin: float  # relative: 0.02 takes ratios from 1 / 1.02 to 1.02 for the same
    differing: tuple[Differing, ...] = ()
    # of not_comparable, and of unclear without a ratio
    why: Statement | None = None  # its text: NOT_COMPARED (core/messages.py)
    trials_to_settle: int | None = None  # further trials of each side that would settle an `unclear`
    with_other_threads: OtherThreads | None = None  # where that would settle an `unclear` sooner

    @property
    def why_text(self) -> str | None:
        """Return `why` in English."""
        return None if self.why is None else not_compared(self.why.id, self.why.values)


def judge(low: float, high: float, margin: float, *, higher_is_better: bool) -> Judgement:
    """Return what an interval of candidate ÷ baseline says. Raises ValueError unless 0 < low <= high and margin >= 0.

    "same" is equivalence, not the absence of a difference: the interval must lie within the margin (Schuirmann,
    J. Pharmacokinet. Biopharm. 15, 1987). Without that a difference is one if the interval leaves 1 out.
    """
    if not 0.0 < low <= high or margin < 0.0:
        raise ValueError(f"no interval of a ratio and its margin: [{low}, {high}], {margin}")
    if 1.0 / (1.0 + margin) <= low and high <= 1.0 + margin and margin > 0.0:
        return Judgement.SAME
    if low > 1.0 or high < 1.0:
        return Judgement.BETTER if (low > 1.0) == higher_is_better else Judgement.WORSE
    return Judgement.UNCLEAR
