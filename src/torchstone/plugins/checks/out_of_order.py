"""Order statistics out of their order: a minimum above the mean, a median above the 99th percentile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.units import significant
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

ROUNDING = 1e-6
_FAMILIES = {
    "latency_per_batch": "latency_per_batch_{}_s", "step_time": "step_time_{}", "loss": "loss_{}",
    "time_to_first_token": "time_to_first_token_{}_s", "time_per_output_token": "time_per_output_token_{}_s",
}  # fmt: skip
_RISING = ("min", "p50", "p90", "p95", "p99", "max")


class OutOfOrder:
    """Fires where what a tool says of one sample cannot be said of any.

    Beside the order itself: half the range bounds the standard deviation from above (Popoviciu, Mathematica (Cluj) 9,
    1935; sample form), and range / √(2(n-1)) from below (Nagy, Jahresber. DMV 27, 1918): what lies below is the
    standard error of the mean.
    """

    describes = "minimum, mean, percentiles and maximum that contradict each other"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error for each family of figures of a Case that contradicts itself."""
        for case_id, _, trials in sound(run):
            seen = dict.fromkeys(message for trial in trials for message in _said(claims(trial)))
            for message in seen:
                advice = "do not use these figures: the tool mixed up samples, names or units"
                yield Finding("out_of_order", Severity.ERROR, message, advice, case_id)


def _said(claimed: Mapping[str, float]) -> Iterator[str]:
    for family, pattern in _FAMILIES.items():
        known = {word: claimed.get(pattern.format(word)) for word in (*_RISING, "mean", "std")}
        values = {word: value for word, value in known.items() if value is not None and math.isfinite(value)}
        yield from _unordered(family, values)
        yield from _no_spread(family, values, claimed.get("steps"))


def _unordered(family: str, values: Mapping[str, float]) -> Iterator[str]:
    rising = [(word, values[word]) for word in _RISING if word in values]
    bounds = [(word, values[word]) for word in ("min", "mean", "max") if word in values]
    for (low, a), (high, b) in (*pairwise(rising), *pairwise(bounds)):
        if a > b + ROUNDING * abs(b):
            yield f"{family}: {low} ({significant(a, 4)}) is above {high} ({significant(b, 4)})"
            return


def _no_spread(family: str, values: Mapping[str, float], steps: float | None) -> Iterator[str]:
    if not {"std", "min", "max"} <= values.keys() or values["max"] <= values["min"]:
        return
    spread, deviation = values["max"] - values["min"], values["std"]
    if deviation > spread / math.sqrt(2.0) * (1.0 + ROUNDING):
        yield f"{family}: the standard deviation ({significant(deviation, 3)}) is too large for its range"
    elif steps is not None and steps > 2 and deviation < 0.9 * spread / math.sqrt(2.0 * steps):
        # 0.9, and n in the place of n - 1: rounding, and deviations of the whole population
        yield (
            f"{family}: the standard deviation ({significant(deviation, 3)}) is too small for its range "
            f"({significant(spread, 3)}) in {steps:.0f} steps: probably the standard error of the mean"
        )


PLUGIN: Check = OutOfOrder()
