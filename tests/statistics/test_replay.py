"""Intervals and comparisons of a run, replayed on real step times of a shared machine: 21 rounds of five processes."""

import json
import math
import os
import random
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pytest

from torchstone.core.stats.comparing import by_rounds, prior_of
from torchstone.core.stats.moderated import half_width, of_siblings, trial_spread

REAL = Path(os.environ.get("TORCHSTONE_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data") / "noise"
DRAWS = 2000


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, list[float]]:
    """The logarithm of the mean step of each round, of four cases: two codes, each of them twice."""
    file = REAL / "processes.json"
    if not file.is_file():
        pytest.skip("the recorded timings are not here: ../shared/data/noise")
    cases: dict[str, list[float]] = {}
    for one in json.loads(file.read_text())["recs"]:
        if not one["inject_us"]:
            cases.setdefault(f"{one['job']} {one['tag']}", []).append(math.log(fmean(one["ns"])))
    return cases


def outside(values: list[float], rounds: list[int], others: list[list[float]]) -> bool:
    """Say whether the mean of the rounds that were not drawn lies outside what those that were allow."""
    own = trial_spread([values[r] for r in rounds])
    beside = [spread for other in others if (spread := trial_spread([other[r] for r in rounds])) is not None]
    assert own is not None
    rest = [value for r, value in enumerate(values) if r not in rounds]
    half = half_width(own, len(rounds), of_siblings(beside)) * math.sqrt(1.0 + len(rounds) / len(rest))
    return abs(fmean([values[r] for r in rounds]) - fmean(rest)) > half


@pytest.mark.parametrize("trials", [2, 3, 5, 10])
def test_intervals_of_a_few_rounds_hold_the_mean_of_all_others(recorded, trials):
    dice, missed, taken = random.Random(trials), 0, 0
    for _ in range(DRAWS):
        for name, values in recorded.items():
            rounds = dice.sample(range(len(values)), trials)
            others = [other for at, other in recorded.items() if at != name and len(other) == len(values)]
            missed += outside(values, rounds, others)
            taken += 1
    assert missed / taken <= 0.07


@pytest.mark.parametrize("trials", [3, 5, 10])
@pytest.mark.parametrize("code", ["cnn", "infer_b1"])
def test_the_same_code_twice_in_one_run_is_rarely_called_different(recorded, trials, code):
    one, other = (values for name, values in recorded.items() if name.startswith(code))
    dice, wrong, students = random.Random(trials), 0, 0
    for _ in range(DRAWS):
        rounds = dice.sample(range(len(one)), trials)
        a, b = ({r: values[r] for r in rounds} for values in (one, other))
        found = by_rounds(a, b, prior_of([{r: values[r] for r in rounds} for values in recorded.values()]))
        plain = by_rounds(a, b)
        assert found is not None
        assert plain is not None
        wrong += found.p_value() < 0.05
        students += plain.p_value() < 0.05
    # Of this one hour, whose processes differ by 20 %, Student's paired t itself is wrong in 3 to 10 % of the draws.
    assert wrong <= students
    assert wrong / DRAWS <= 0.09
