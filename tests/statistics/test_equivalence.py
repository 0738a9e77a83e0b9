"""How often two losses are called equivalent that differ by the margin, or different that are equal."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from torchstone.core.stats.convergence import MARGIN, Sameness, of_losses

DRAWS = 600
STEPS = 240


def pair(rng: np.random.Generator, difference: float, correlation: float) -> tuple[list[float], list[float]]:
    """Two trainings on the same batches: their common noise cancels, what rounding adds resembles its neighbours."""
    level = 2.0 + 0.2 * rng.normal(size=STEPS)
    shocks = rng.normal(size=STEPS + 100) * np.sqrt(1 - correlation**2)
    apart = 0.04 * lfilter([1.0], [1.0, -correlation], shocks)[100:]
    return (level + apart + 2.0 * difference).tolist(), level.tolist()


def shares(difference: float, correlation: float) -> dict[Sameness, float]:
    rng = np.random.default_rng(int(1e4 * difference) + int(100 * correlation))
    verdicts = []
    for _ in range(DRAWS):
        found = of_losses(*pair(rng, difference, correlation))
        assert found is not None
        verdicts.append(found.verdict)
    told = {verdict: verdicts.count(verdict) / DRAWS for verdict in Sameness}
    print(difference, correlation, {str(verdict): round(share, 3) for verdict, share in told.items()})
    return told


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_a_difference_of_the_margin_is_called_equivalent_once_in_twenty(correlation: float) -> None:
    assert shares(MARGIN, correlation)[Sameness.EQUIVALENT] <= 0.075


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_equal_losses_are_hardly_ever_called_different(correlation: float) -> None:
    assert shares(0.0, correlation)[Sameness.DIFFERENT] <= 0.075


def test_what_is_clear_is_told() -> None:
    assert shares(0.0, 0.0)[Sameness.EQUIVALENT] >= 0.9
    assert shares(5 * MARGIN, 0.5)[Sameness.DIFFERENT] >= 0.9
