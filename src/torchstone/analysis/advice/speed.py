"""How many times as fast one Case of a run is as another."""

from __future__ import annotations

from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.trainings import Span
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.estimate import Verdict


def times_as_fast(case: CaseSummary, reference: CaseSummary) -> Span | None:
    """Return the throughput of one Case ÷ that of another, with its 95 % interval; None where one is not VALID.

    Compared round by round, as `compare --over` does. The interval is None where one trial alone stands behind a Case.
    """
    if not case.verdict == reference.verdict == Verdict.VALID:
        return None
    paired = InRounds([case, reference]).ratio(case.case_id, reference.case_id)
    if paired is not None:
        return Span(*paired)
    one, other = case.estimates.get("throughput"), reference.estimates.get("throughput")
    return Span(one.value / other.value, None, None) if one and other and other.value > 0.0 else None
