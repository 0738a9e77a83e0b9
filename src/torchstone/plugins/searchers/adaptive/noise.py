"""How much readings of the same code differ on a quiet machine; all of ln.

About what benchmarks/surfaces/noise.py tells of a small and of a large net.
"""

from __future__ import annotations

import math

TRIAL_SD = 0.028  # between trials of the same code
WITHIN_S, WITHIN_SD = 5e-4, 0.055  # variance within a window: so much ÷ its seconds, at most that squared
WINDOW_S = 5.0  # a full window where it is not told
DRIFT_SD, DRIFT_S = 0.03, 150.0  # what trials near in time have in common


def noise_variance(window_s: float) -> float:
    """Return the variance of a reading's own noise, its window that long."""
    return TRIAL_SD**2 + min(WITHIN_SD**2, WITHIN_S / max(1e-9, window_s))


def drift(apart_s: float) -> float:
    """Return the covariance of the drift of two readings, so many seconds apart."""
    return DRIFT_SD**2 * math.exp(-abs(apart_s) / DRIFT_S)
