"""Quality: whether a model in another runtime or format answers as well as it does in eager mode in fp32."""

from __future__ import annotations

from enum import StrEnum

import msgspec

MARGIN = 0.01  # the loss that is given up where no other was asked for: a share of the items, or of the perplexity
Margin = float | msgspec.UnsetType  # as files have it, where it was asked for


def margin_of(given: Margin) -> float:
    """Return the margin that holds."""
    return MARGIN if isinstance(given, msgspec.UnsetType) else given


class NextToken(msgspec.Struct, frozen=True):
    """Cross-entropy of the next token of real texts, a mean over all of their `tokens`.

    `reference_nats`: of eager mode in fp32. `more_nats`: how much higher the other's is; `error_nats`: the standard
    error of that, over texts.
    """

    tokens: int
    reference_nats: float
    more_nats: float
    error_nats: float


class AnswerCounts(msgspec.Struct, frozen=True):
    """Items of real data that both answered. `same`: with the same class; of a text, with the same next tokens.

    Where items have labels: `right`, both were; `lost`, only eager mode in fp32 was; `gained`, only the other was.
    `text`: of language models.
    """

    items: int
    same: int
    right: int | None = None
    lost: int | None = None
    gained: int | None = None
    text: NextToken | None = None


class QualityVerdict(StrEnum):
    """What the interval of the loss says, beside the margin."""

    AS_GOOD = "as good"  # its upper end is below
    WORSE = "worse"  # its lower end is above
    UNDECIDED = "undecided"


class QualityLoss(msgspec.Struct, frozen=True):
    """The loss of quality of what does not compute the same, with its 95 % interval; None: no items were compared.

    `loss`: accuracy of eager mode in fp32 minus the other's, on the same items; where these have no labels, the share
    that got another class, which no loss of accuracy exceeds; of a language model, by what share its `perplexity` is
    higher. `items_needed`: at these rates, where it is undecided.
    """

    verdict: QualityVerdict
    margin: float
    items: int = 0
    labelled: bool = False
    loss: float | None = None
    low: float | None = None
    high: float | None = None
    accuracy: float | None = None  # of what was measured
    items_needed: int | None = None
    perplexity: float | None = None  # of what was measured
