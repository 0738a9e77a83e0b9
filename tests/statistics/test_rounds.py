"""What looking after every round costs the interval of a run that stops when it is narrow enough."""

import math
import random

import pytest

from torchstone.core.stats.moderated import half_width, trial_spread
from torchstone.execution.controller.rounds import FEWEST

AIM, MOST = 0.05, 40


def one_case(deviation, dice):
    """Return whether the interval holds at which it stopped, and after how many trials."""
    logs = [dice.gauss(0.0, deviation) for _ in range(FEWEST)]
    while True:
        spread = trial_spread(logs)
        assert spread is not None
        half = half_width(spread, len(logs), None)
        if math.expm1(half) <= AIM or len(logs) >= MOST:
            return abs(math.fsum(logs) / len(logs)) <= half, len(logs)
        logs.append(dice.gauss(0.0, deviation))


@pytest.mark.parametrize("deviation", [0.02, 0.04, 0.06, 0.08, 0.1, 0.15])
def test_it_covers_93_percent_and_more(deviation):
    dice, runs = random.Random(7), 4000
    found = [one_case(deviation, dice) for _ in range(runs)]
    assert sum(held for held, _ in found) / runs >= 0.93
    assert sum(n for _, n in found) / runs <= 1.2 * max(FEWEST, (2.1 * deviation / AIM) ** 2 + 3)
