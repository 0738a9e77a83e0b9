"""How often the bands of a distribution hold it: by steps of one trial all of it, over trials each quantile."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchstone.core.stats.quantile import of_one_trial, over_several

DRAWS = 600
NORMAL_QUANTILES = {0.25: -0.6744897501960817, 0.5: 0.0, 0.75: 0.6744897501960817, 0.95: 1.6448536269514722}


def uniform_share(value: float) -> float:
    return min(1.0, max(0.0, value))


@pytest.mark.parametrize("steps", [10, 50, 300])
def test_the_band_of_one_trial_holds_the_whole_distribution(steps: int) -> None:
    """Of independent steps: the true quantile lies inside at every share at once, in 95 % of trials or more."""
    rng = np.random.default_rng(steps)
    held = 0
    for _ in range(DRAWS):
        band = of_one_trial(rng.uniform(size=steps).tolist(), most=steps)
        # of the uniform distribution the quantile of a share is that share
        held += all(
            (one.low is None or one.low <= one.share) and (one.high is None or one.share <= one.high) for one in band
        )
    share = held / DRAWS
    print(f"{steps} steps: the band of one trial holds in {share:.1%}")
    assert share >= 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / DRAWS)
    assert share < 0.999, "or it would say nothing"


@pytest.mark.parametrize("trials", [3, 8])
def test_the_interval_over_trials_holds_each_quantile(trials: int) -> None:
    """Processes differ by 5 %, steps within one by 3 %: at each share the interval holds in about 95 %."""
    rng = np.random.default_rng(trials)
    steps, between, within = 200, 0.05, 0.03
    held = dict.fromkeys(NORMAL_QUANTILES, 0)
    for _ in range(DRAWS):
        taken = [
            (0.01 * np.exp(between * rng.normal() + within * rng.normal(size=steps))).tolist() for _ in range(trials)
        ]
        band = over_several(taken, most=200)
        for q, z in NORMAL_QUANTILES.items():
            one = band[min(range(len(band)), key=[abs(each.share - q) for each in band].__getitem__)]
            true = 0.01 * math.exp(within * z)  # of a typical process
            held[q] += one.low is not None and one.high is not None and one.low <= true <= one.high
    told = {q: count / DRAWS for q, count in held.items()}
    print(f"{trials} trials: {', '.join(f'{q:g}: {share:.1%}' for q, share in told.items())}")
    assert all(0.92 <= share <= 0.98 for share in told.values())


def test_the_steps_of_one_trial_say_nothing_of_other_processes() -> None:
    """Why several trials are not pooled: where processes differ, the band of one trial misses the typical process."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(DRAWS):
        band = of_one_trial((0.01 * np.exp(0.05 * rng.normal() + 0.03 * rng.normal(size=200))).tolist())
        one = min(band, key=lambda one: abs(one.share - 0.5))
        missed += one.low is None or one.high is None or not one.low <= 0.01 <= one.high
    assert missed / DRAWS > 0.5
