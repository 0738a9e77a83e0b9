"""Bounds for the numbers of a stored trial, which may be untrusted, as the statistics need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from torchstone.core.schema.facts import Facts, known
from torchstone.core.schema.trial import Series, Trial

# float32 ends at 3.4e38 and begins at 1.4e-45: no clock, counter or loss goes beyond. What lies between can be squared,
# summed and divided without an overflow.
LARGEST, SMALLEST = 1e40, 1e-45
_MAY_BE_INFINITE = ("loss", "fingerprint")  # a training that diverged is data: who reads these expects it


def bounded(trial: Trial) -> Trial:
    """Return a trial with NaN for what no measurement in any unit can be, infinities too, and 0 for what is as small.

    Kept are infinities among losses and fingerprints. Of 1e308 s, or of inf beside -inf, no mean can be taken.
    """
    measurements = tuple(
        m if _within(m.values) else msgspec.structs.replace(m, values=_bounded(m.values, m.metric in _MAY_BE_INFINITE))
        for m in trial.measurements
    )
    series = tuple(map(_readings, trial.series))
    return msgspec.structs.replace(trial, facts=_facts(trial.facts), measurements=measurements, series=series)


def _facts(facts: Facts) -> Facts:
    changed = {name: bound for name, value in known(facts) if (bound := _fact(value)) is not value}
    return msgspec.structs.replace(facts, **changed) if changed else facts


def _fact(value: Any) -> Any:
    if isinstance(value, dict):
        bounds = {name: _fact(one) for name, one in value.items()}
        return value if all(bounds[name] is one for name, one in value.items()) else bounds
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= LARGEST else None
    return _number(value) if isinstance(value, float) else value


def _readings(series: Series) -> Series:
    """Return a Series with as many moments as values."""
    at_s, values = series.at_s, series.values
    if len(at_s) == len(values) and _within(at_s) and _within(values):
        return series
    both = min(len(at_s), len(values))
    return msgspec.structs.replace(series, at_s=_bounded(at_s[:both]), values=_bounded(values[:both]))


def _within(values: Sequence[float]) -> bool:
    """Say whether nothing has to be changed. Without a loop: raw values are most of a record.

    Comparisons with NaN are false, so one that hides a value from `max` or `min` is itself what these return.
    """
    if not values:
        return True
    sizes = map(abs, filter(None, values))
    return max(values) <= LARGEST and min(values) >= -LARGEST and min(sizes, default=1.0) >= SMALLEST


def _bounded(values: Sequence[float], infinite: bool = False) -> tuple[float, ...]:
    return tuple(v if infinite and math.isinf(v) else _number(v) for v in values)


def _number(value: float) -> float:
    size = abs(value)
    if not size <= LARGEST:  # an int of hundreds of digits too, which no float can hold
        return math.nan
    return value if size >= SMALLEST or size == 0 else 0.0
