"""What `torchstone memory` answers: whether a step fits each card, with what error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.trial import Outcome

# How far a predicted peak was from what the allocator counted, of the cases of benchmarks/memory_model.py (CPU):
# the median, and what nine of ten keep to (benchmarks/data/memory_model.json; a test holds the one against the other).
CASES, MEDIAN_ERROR, USUAL_ERROR = 43, 0.001, 0.02


class FitVerdict(StrEnum):
    """Whether a step fits a card."""

    FITS = "fits"  # and leaves a tenth of the memory free
    TIGHT = "tight"  # the peak alone fits: fragments, the driver's own share and the error decide
    TOO_LARGE = "too large"
    UNKNOWN = "not predicted"


class FitRow(msgspec.Struct, frozen=True):
    """One Configuration on one card. `largest`: the largest batch that leaves a tenth of the memory free.

    `why_not`: how the process ended that was to follow a step; `fixed`: why there is no other batch size.
    """

    task: str
    model: str
    card: str
    memory_bytes: int
    configuration: Mapping[str, Scalar]
    peak: PeakMemory | None = None
    largest: PeakMemory | None = None
    why_not: Outcome | None = None
    fixed: Statement | None = None

    @property
    def verdict(self) -> FitVerdict:
        """Say whether the batch asked about fits."""
        if self.peak is None:
            return FitVerdict.UNKNOWN
        if self.peak.allocated_bytes <= limit_bytes(self.memory_bytes):
            return FitVerdict.FITS
        return FitVerdict.TIGHT if self.peak.allocated_bytes <= self.memory_bytes else FitVerdict.TOO_LARGE


class MemoryAnswer(msgspec.Struct, frozen=True):
    """All rows, in the order asked. `axes`: those that differ between rows. `sources`: the vendors' documents.

    `checked`: how many cases stand behind the errors.
    """

    rows: tuple[FitRow, ...]
    axes: tuple[str, ...]
    sources: Mapping[str, str | None]
    checked: int = CASES
    median_error: float = MEDIAN_ERROR
    usual_error: float = USUAL_ERROR


def limit_bytes(memory_bytes: int) -> int:
    """Return what a peak must stay below to be safe: a tenth stays free, as `tune` keeps it."""
    return int(SAFE_SHARE * memory_bytes)
