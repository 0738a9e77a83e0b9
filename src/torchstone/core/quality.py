"""Whether what computes something else than eager mode in fp32 is as good as that: decided here alone."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from torchstone.core.figures import figures
from torchstone.core.fingerprints import TOLERANCE
from torchstone.core.schema.quality import AnswerCounts, Margin, NextToken, QualityLoss, QualityVerdict, margin_of
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.interval import items_to_decide, loss_interval
from torchstone.core.stats.student import two_sided

_FEWEST_TEXTS = 20  # fewer, where they differ skewly, are called as good too often
_MOST_WIDE = 1000.0  # half of an interval over what it would have to be: a million times the texts
_MOST_NATS = 300.0  # of which e to that power is a number


def quality_of(
    found: Iterable[tuple[float | None, AnswerCounts | None]], margin: Margin, *, varied: bool = False
) -> QualityLoss | None:
    """Judge a Case by relative error and counts of each of its trials; None where it computes the same.

    All trials compare the same items: those of the trial that compared most are taken, never the sum. `varied`: another
    runtime or a quantized format answers, so that it does not compute the same where nothing was compared.
    """
    told = list(found)
    counts = max((one for _, one in told if one is not None), key=lambda one: one.items, default=None)
    errors = [error for error, _ in told if error is not None]
    if max(errors, default=0.0 if counts is None and not varied else math.inf) <= TOLERANCE:
        return None
    known = margin_of(margin)
    if counts is None or not counts.items:
        return QualityLoss(QualityVerdict.UNDECIDED, known)
    return judged(counts, known)


def quality_of_trials(trials: Iterable[Trial], margin: Margin) -> QualityLoss | None:
    """Judge a Case by its trials."""
    found = ((figures(trial).values.get("relative_output_error"), trial.facts.answers) for trial in trials)
    return quality_of(found, margin)


def judged(counts: AnswerCounts, margin: float) -> QualityLoss:
    """Return the verdict: a test of non-inferiority at 2.5 %, as its 95 % interval has two sides."""
    if counts.text is not None:
        return _judged_text(counts.items, counts.text, margin)
    n, lost, gained, accuracy = counts.items, counts.lost, counts.gained, None
    labelled = lost is not None and gained is not None and counts.right is not None
    if lost is None or gained is None or counts.right is None:
        lost, gained = n - counts.same, 0  # at worst: wherever they differ, eager mode was right
    else:
        accuracy = (counts.right + gained) / n
    low, high = loss_interval(lost, gained, n)
    low = low if labelled else max(0.0, low)  # a share of items
    verdict = _verdict(low, high, margin)
    needed = items_to_decide(lost, gained, n, margin) if verdict == QualityVerdict.UNDECIDED else None
    return QualityLoss(verdict, margin, n, labelled, (lost - gained) / n, low, high, accuracy, needed)


def _judged_text(n: int, text: NextToken, margin: float) -> QualityLoss:
    """Return the verdict on a language model, by Student's t-interval over texts of the mean log-ratio a token."""
    if n < _FEWEST_TEXTS:
        return QualityLoss(QualityVerdict.UNDECIDED, margin, n, items_needed=_FEWEST_TEXTS)
    more, half = text.more_nats, two_sided(0.95, n - 1) * text.error_nats
    loss, low, high = (math.expm1(min(nats, _MOST_NATS)) for nats in (more, more - half, more + half))
    gap = abs(math.log1p(margin) - more)
    ratio = half / gap if gap > 0.0 else math.inf
    verdict = _verdict(low, high, margin)
    needed = math.ceil(n * ratio**2) + 1 if verdict == QualityVerdict.UNDECIDED and ratio < _MOST_WIDE else None
    perplexity = math.exp(min(text.reference_nats + more, _MOST_NATS))
    return QualityLoss(verdict, margin, n, loss=loss, low=low, high=high, items_needed=needed, perplexity=perplexity)


def _verdict(low: float, high: float, margin: float) -> QualityVerdict:
    if high < margin:
        return QualityVerdict.AS_GOOD
    return QualityVerdict.WORSE if low > margin else QualityVerdict.UNDECIDED


def is_as_good(quality: QualityLoss | msgspec.UnsetType | None) -> bool:
    """Say whether it may be recommended: it computes the same, or is shown to be as good."""
    return not isinstance(quality, QualityLoss) or quality.verdict == QualityVerdict.AS_GOOD
