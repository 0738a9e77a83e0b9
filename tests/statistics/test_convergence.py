"""The interval of a convergence rate covers the truth, though losses resemble their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from torchstone.core.stats.convergence import ending, rate

DRAWS = 400
NOISE = 0.15  # standard deviation of ln(loss) at one step


def noise(rng: np.random.Generator, steps: int, correlation: float) -> np.ndarray:
    shocks = rng.normal(size=steps + 100) * np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], shocks)[100:]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("steps", [40, 100, 400])
def test_the_interval_of_the_rate_covers_the_slope(steps: int, correlation: float) -> None:
    rng = np.random.default_rng(1700 + steps + int(10 * correlation))
    truth = -1.0 / steps  # the loss falls to a third
    hits = 0
    for _ in range(DRAWS):
        losses = 2.3 * np.exp(truth * np.arange(steps) + NOISE * noise(rng, steps, correlation))
        found = rate(losses.tolist())
        assert found is not None
        hits += found.low <= truth <= found.high
    print(f"{steps} steps, correlation {correlation}: {hits / DRAWS:.1%}")
    assert (0.92 if steps > 40 or correlation < 0.8 else 0.85) <= hits / DRAWS <= 0.995


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_interval_of_the_end_covers_the_level(correlation: float) -> None:
    rng = np.random.default_rng(2900 + int(10 * correlation))
    hits = 0
    for _ in range(DRAWS):
        found = ending((2.0 + 0.2 * noise(rng, 600, correlation)).tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 2.0 <= found.high
    print(f"end, correlation {correlation}: {hits / DRAWS:.1%}")
    assert 0.92 <= hits / DRAWS <= 0.985


def test_four_resident_batches_and_single_spikes_do_not_move_the_rate() -> None:
    rng = np.random.default_rng(44)
    steps = 200
    levels = np.tile([0.3, -0.2, 0.0, -0.1], steps // 4)
    hits, widths = 0, []
    for _ in range(DRAWS):
        losses = 2.3 * np.exp(-0.005 * np.arange(steps) + levels + 0.05 * rng.normal(size=steps))
        losses[rng.integers(20, steps, size=3)] *= 5.0
        found = rate(losses.tolist())
        assert found is not None
        hits += found.low <= -0.005 <= found.high
        widths.append(found.high - found.low)
    assert 0.92 <= hits / DRAWS <= 0.99
    assert np.mean(widths) < 0.001, "a fifth of the slope, though a spike is worth 200 steps of it"
