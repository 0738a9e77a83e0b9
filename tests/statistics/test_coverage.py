"""Behind every interval shown: 95 % of them hold the truth, on noise as measured (13 % a step, 12 % a process)."""

from __future__ import annotations

import numpy as np
import pytest
from build import a_trial
from scipy.signal import lfilter

from torchstone.core.estimates import estimates
from torchstone.core.figures import figures

DRAWS = 2500
STEPS = 30
BETWEEN_SD, WITHIN_SD, CORRELATION = 0.12, 0.13, 0.52
TRUTH_S = 0.0137


def steps_of(rng: np.random.Generator, trials: int) -> list[list[float]]:
    """Steps of trials: each process has its own chance, and each step resembles the one before it."""
    shocks = rng.normal(size=(trials, STEPS + 20)) * WITHIN_SD * np.sqrt(1 - CORRELATION**2)
    within = lfilter([1.0], [1.0, -CORRELATION], shocks, axis=1)[:, 20:]
    between = rng.normal(scale=BETWEEN_SD, size=(trials, 1))
    steps: list[list[float]] = (TRUTH_S * np.exp(between + within)).tolist()
    return steps


@pytest.mark.parametrize("trials", [3, 5, 10])
def test_the_interval_over_trials_covers_the_truth(trials: int) -> None:
    rng = np.random.default_rng(1908 + trials)
    truth = {
        "step_time_p50": TRUTH_S,  # the median of a lognormal
        "step_time_mean": TRUTH_S * np.exp(WITHIN_SD**2 / 2),
        "throughput": 16 / (TRUTH_S * np.exp(WITHIN_SD**2 / 2)),
    }
    hits = dict.fromkeys(truth, 0)
    for _ in range(DRAWS):
        found = estimates([figures(a_trial(steps)) for steps in steps_of(rng, trials)])
        for name, true in truth.items():
            low, high = found[name].low, found[name].high
            assert low is not None
            assert high is not None
            hits[name] += low <= true <= high
    rates = {name: hit / DRAWS for name, hit in hits.items()}
    print(f"{trials} trials: " + ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items()))
    assert all(0.93 <= rate <= 0.97 for rate in rates.values()), rates
