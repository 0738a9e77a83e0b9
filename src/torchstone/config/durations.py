"""Durations and shares as people write them: "30s", "5m", "1.5h", "500ms", "1%"."""

from __future__ import annotations

import math
import re

from torchstone.core.errors import UsageError

_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)
_SHARE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", re.ASCII)


def duration_s(value: object, where: str = "") -> float:
    """Return a duration in seconds: a number, or a text like 30s, 5m, 1h, 500ms. Raises UsageError, naming `where`."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[2].lower() in _SECONDS:
        return float(match[1]) * _SECONDS[match[2].lower()]
    return _number(value, where, "a duration: write 500ms, 30s, 5m or 1h")


def share(value: object, where: str = "") -> float:
    """Return a share as a ratio between 0 and 1: "1%" → 0.01, 0.01 → 0.01. Raises UsageError, naming `where`."""
    match = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        value = float(match[1]) / (100.0 if match[2] else 1.0)
    number = _number(value, where, "a share: write 1% or 0.01")
    if not 0.0 < number < 1.0:
        raise UsageError(f"{where + ': ' if where else ''}{number:g} is not between 0 and 1: write 1% or 0.01")
    return number


def _number(value: object, where: str, wanted: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise UsageError(f"{where + ': ' if where else ''}{value!r} is not {wanted}")
