"""How many times as fast one Case of a run is as another."""

from __future__ import annotations

from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.trainings import Span
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.estimate import Verdict
from torchstone.core.stats.ratio import log_mean, ratio


def times_as_fast(case: CaseSummary, reference: CaseSummary) -> Span | None:
    """Return the throughput of one Case ÷ that of another, with its 95 % interval; None where one is not VALID.

    Compared round by round where one run measured both in turn, else by the intervals of both. The interval is None
    where one trial alone stands behind a Case.
    """
    if not case.verdict == reference.verdict == Verdict.VALID:
        return None
    paired = InRounds([case, reference]).ratio(case.case_id, reference.case_id)
    if paired is not None:
        return Span(*paired)
    one, other = case.estimates.get("throughput"), reference.estimates.get("throughput")
    if one is None or other is None or other.value <= 0.0:
        return None
    means = [log_mean(e.value, e.low, e.high, e.trials, e.level) for e in (one, other)]
    low, high = ratio(means[0], means[1]) if means[0] is not None and means[1] is not None else (None, None)
    return Span(one.value / other.value, low, high)
