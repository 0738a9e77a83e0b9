"""The best of many: how often the truly best one is left out, and how often its lead is stated wrongly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchstone.core.stats.best_of_many import best_of, entrants

DRAWS = 150
SPREADS = {
    "equal": lambda rng, k: np.full(k, 0.03),
    "some three times as wide": lambda rng, k: rng.choice([0.02, 0.06], k),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("trials", [3, 5])
@pytest.mark.parametrize("count", [2, 5, 12])
def test_the_best_is_left_out_in_one_of_twenty_at_most(count: int, trials: int, spread: str) -> None:
    rng = np.random.default_rng(100 * count + trials + len(spread))
    missed = wrong = singled = naive = 0
    for _ in range(DRAWS):
        truth = np.zeros(count)
        truth[0] = 0.01  # hardly better: all others are as many chances to look better
        deviations = SPREADS[spread](rng, count)
        groups = [
            rng.normal(mean, deviation, trials).tolist() for mean, deviation in zip(truth, deviations, strict=True)
        ]
        best = best_of(entrants(groups))
        missed += 0 not in best.could_be
        naive += best.best != 0
        if best.is_clear:
            singled += 1
            assert best.lead is not None
            wrong += best.best != 0 or not math.log(best.lead[1]) <= 0.01 <= math.log(best.lead[2])
    told = f"best left out {missed / DRAWS:.1%}, one alone {singled / DRAWS:.1%}, wrong {wrong / DRAWS:.1%}"
    print(f"{count} × {trials}, {spread}: {told}; the highest is not the best {naive / DRAWS:.0%}")
    assert missed / DRAWS <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / DRAWS)
    assert wrong / DRAWS <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / DRAWS)


@pytest.mark.parametrize("count", [3, 10])
def test_a_lead_of_a_tenth_is_found_and_its_interval_holds(count: int) -> None:
    rng = np.random.default_rng(count)
    clear = held = 0
    for _ in range(DRAWS):
        truth = [0.1, *[0.0] * (count - 1)]
        best = best_of(entrants([rng.normal(mean, 0.02, 5).tolist() for mean in truth]))
        clear += best.could_be == (0,)
        assert best.lead is not None
        held += best.lead[1] <= math.exp(0.1) <= best.lead[2]
    print(f"{count}: clear {clear / DRAWS:.1%}, interval holds {held / DRAWS:.1%}")
    assert clear / DRAWS >= 0.9
    assert held / DRAWS >= 0.92
