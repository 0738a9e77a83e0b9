"""Estimate, Finding and Verdict: what is believed of a number, and why or why not."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Estimate(msgspec.Struct, frozen=True):
    """A figure over trials. `low` and `high` are None where the trials cannot support an interval; `note` says why."""

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


class Severity(StrEnum):
    """What a Finding does to the verdict of its subject: nothing, SUSPECT, INVALID."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """What a check saw. `subject` is a case_id, or "run"."""

    check: str
    severity: Severity
    message: str
    advice: str
    subject: str


class Verdict(StrEnum):
    """Whether the numbers of a Case may be believed."""

    VALID = "VALID"
    SUSPECT = "SUSPECT"
    INVALID = "INVALID"


def verdict(findings: tuple[Finding, ...]) -> Verdict:
    """Return what the worst of a Case's findings makes of it."""
    severities = {f.severity for f in findings}
    if Severity.ERROR in severities:
        return Verdict.INVALID
    return Verdict.SUSPECT if Severity.WARNING in severities else Verdict.VALID
