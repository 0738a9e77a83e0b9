"""Back from the logarithm, into what a JSON record can carry."""

from __future__ import annotations

import math

# exp() of more overflows, and of less is no longer a positive number: absurd records must not end a command
_MOST = math.log(1e308)


def from_log(log: float) -> float:
    """Return e to the `log` (no unit), held between 1e-308 and 1e308, so that it is positive and finite."""
    return math.exp(min(max(log, -_MOST), _MOST))
