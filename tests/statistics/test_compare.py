"""How often `compare` is wrong on noise of every kind: the short form of benchmarks/compare.py."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from build import a_case
from comparable import a_stored_run
from compare import LEVEL, NOISE, SCENES, contrast, recorded, verdict

from torchstone.comparing.compare import Asked, compare
from torchstone.comparing.participants import Participant
from torchstone.stats.comparing import difference, of_independent
from torchstone.terms.comparison import Judgement

DRAWS = 500
FALSE = (Judgement.BETTER, Judgement.WORSE)


@pytest.mark.parametrize("trials", [3, 10])
def test_intervals_of_runs_in_succession_cover_and_false_alarms_are_rare(trials: int) -> None:
    covered: dict[str, float] = {}
    false: dict[str, float] = {}
    for name, noise in SCENES.items():
        dice = random.Random(f"{name} {trials}")
        hits = alarms = 0
        for _ in range(DRAWS):
            values = noise(dice, 2 * trials)
            found = contrast(values[:trials], values[trials:], 0.0)
            low, high = found.interval(LEVEL)
            hits += low <= 0.0 <= high
            alarms += verdict(found) in FALSE
        covered[name], false[name] = hits / DRAWS, alarms / DRAWS
    print({name: f"{rate:.1%}" for name, rate in covered.items()})
    # Three standard errors of as many draws beside the 5 % and 95 % that benchmarks/compare.py finds kept.
    assert all(rate <= 0.08 for rate in false.values()), false
    assert all(rate >= 0.92 for rate in covered.values()), covered
    assert 0.95 <= fmean(covered.values()) <= 0.985


def test_what_is_different_is_never_called_the_same_and_is_found_where_it_is_large() -> None:
    dice = random.Random(7)
    found = {by: {"same": 0, "right": 0} for by in (0.03, 0.5)}
    for _ in range(DRAWS):
        values = [dice.gauss(0.0, 0.01) for _ in range(10)]  # a quiet machine: processes differ by 1 %
        for by, seen in found.items():
            said = verdict(contrast(values[:5], [log + math.log1p(by) for log in values[5:]], 0.0))
            seen["same"] += said == Judgement.SAME
            seen["right"] += said == Judgement.WORSE
    assert found[0.03]["same"] <= 0.025 * DRAWS
    assert found[0.5] == {"same": 0, "right": DRAWS}


def test_on_recorded_noise_it_is_right_where_the_usual_test_is_not() -> None:
    if not NOISE.is_file():
        pytest.skip(f"no recorded noise: {NOISE} is not there")
    ours, usual = [], []
    for values in recorded().values():
        pairs = [(values[i : i + 5], values[i + 5 : i + 10]) for i in range(len(values) - 9)]
        ours.append(fmean(verdict(contrast(a, b, 0.0)) in FALSE for a, b in pairs))
        usual.append(fmean(verdict(difference(of_independent(a), of_independent(b))) in FALSE for a, b in pairs))
    assert fmean(ours) <= 0.05
    assert fmean(usual) > 0.10, "if this ceases to hold, the price of the batches is paid for nothing"


def test_whole_tables_of_equal_runs_have_hardly_a_false_alarm() -> None:
    """Six cases in two runs, every figure of them: Holm over the throughputs, Benjamini-Hochberg over the others."""
    dice = random.Random(11)
    cases = [a_case({"batch_size": 2**n}) for n in range(6)]
    tables = first = others = 0
    for _ in range(60):
        runs = []
        for minutes in (0, 4):
            drawn = [[0.01 * math.exp(dice.gauss(0.0, 0.05)) for _ in range(4)] for _ in cases]
            runs.append(a_stored_run(drawn[0], cases[0], *zip(cases[1:], drawn[1:], strict=True), minutes=minutes))
        sides = [Participant(letter, letter, letter, (run,)) for letter, run in zip("AB", runs, strict=True)]
        wrong = [one.comparison.metric for one in compare(sides, Asked()).judged if one.comparison.verdict in FALSE]
        tables += 1
        first += "throughput" in wrong
        others += bool(set(wrong) - {"throughput"})
    assert first <= 0.05 * tables + 3
    assert others <= 0.05 * tables + 3
