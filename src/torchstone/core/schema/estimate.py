"""Estimate, Finding and Verdict: a figure with its interval, and what the checks say of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.core import units
from torchstone.core.messages import REMEDIES, Value, Words, filled, words_of


class Estimate(msgspec.Struct, frozen=True):
    """A figure over trials. `low` and `high` are None where the trials cannot support an interval; `note` says why.

    `lowest` and `highest`: of the trials; None of fewer than two. Where the interval is too wide to be shown, `value`
    is the middle trial, and these are shown in its place.
    """

    value: float
    low: float | None
    high: float | None
    level: float
    unit: str
    method: str
    trials: int
    samples: int
    supported: bool = True
    note: str | None = None
    lowest: float | None = None
    highest: float | None = None

    @property
    def is_wide(self) -> bool:
        """Whether its interval is too wide to be shown, or to choose anything by."""
        return units.is_wide(self.value, self.low, self.high)


class Severity(StrEnum):
    """What a Finding does to the verdict of its subject: nothing, SUSPECT, INVALID."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """What a check saw. `subject` is a case_id, or "run".

    `reason`: which of its messages, where the check has several; `values`: what it counted, measured and names;
    `remedies`: what to do, where that is not the same for every finding of this kind. The texts of all these are in
    core/messages.py; `words`: those of a third party's check, so that a record can be read without it.
    """

    check: str
    severity: Severity
    subject: str
    values: Mapping[str, Value] = {}
    reason: str = ""
    remedies: tuple[str, ...] = ()
    words: Words | None = None

    def __hash__(self) -> int:
        """Return a hash; equal values have equal ones."""
        return hash((self.check, self.severity, self.subject, self.reason, self.remedies))

    @property
    def message(self) -> str:
        """What was seen, in English, for people: nothing is decided by it."""
        return filled(self.texts.message, self.values)

    @property
    def advice(self) -> str:
        """What to do, in English, for people."""
        return "; ".join(filled(one, self.values) for one in self.advised)

    @property
    def texts(self) -> Words:
        """The texts with places that belong to it."""
        return self.words or words_of(self.check, self.reason)

    @property
    def advised(self) -> tuple[str, ...]:
        """The texts of what to do."""
        return tuple(REMEDIES.get(one, one) for one in self.remedies) or (self.texts.advice,)


class Verdict(StrEnum):
    """Whether the figures of a Case are valid."""

    VALID = "VALID"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


def verdict(findings: tuple[Finding, ...]) -> Verdict:
    """Return what the worst of a Case's findings makes of it."""
    severities = {f.severity for f in findings}
    if Severity.ERROR in severities:
        return Verdict.INVALID
    return Verdict.SUSPECT if Severity.WARNING in severities else Verdict.VALID
