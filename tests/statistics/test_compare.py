"""How often `compare` is wrong on noise of every kind: the short form of benchmarks/compare.py."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from statistics import fmean, median

import pytest
from build import a_case
from comparable import a_stored_run
from compare import DATA, LEVEL, NOISE, SCENES, contrast, recorded, verdict

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.comparison import Judgement
from torchstone.core.stats.comparing import Templates, VariancePart, difference, drift_seen, of_independent, run_mean

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
        sides = [ComparedInput(letter, letter, letter, (run,)) for letter, run in zip("AB", runs, strict=True)]
        wrong = [
            one.comparison.metric
            for one in compare(sides, ComparisonRequest()).judged
            if one.comparison.verdict in FALSE
        ]
        tables += 1
        first += "throughput" in wrong
        others += bool(set(wrong) - {"throughput"})
    assert first <= 0.05 * tables + 3
    assert others <= 0.05 * tables + 3


@pytest.mark.parametrize(("templates", "processes"), [(2, 13), (6, 5)])
@pytest.mark.parametrize("between", [0.0, 0.005, 0.01])
@pytest.mark.parametrize("within", [0.17, 0.03, 0.005])
def test_processes_of_few_templates_cover_and_are_no_two_replicates(
    templates: int, processes: int, between: float, within: float
) -> None:
    """Two records of `ab`: 26 to 30 processes a side, whose templates (renewed interpreters) differ, too."""
    dice = random.Random(f"{templates} {between} {within}")
    hits = alarms = 0
    widths = []
    for _ in range(DRAWS):
        sides = [_of_templates(dice, templates, processes, between, within) for _ in "AB"]
        found = difference(*sides)
        low, high = found.interval(LEVEL)
        hits += low <= 0.0 <= high
        alarms += verdict(found) in FALSE
        widths.append((high - low) / 2)
    assert hits >= 0.93 * DRAWS
    assert alarms <= 0.05 * DRAWS + 3
    ideal = 1.96 * math.sqrt(2 * (within**2 / (templates * processes) + max(between, 0.01) ** 2 / templates))
    assert median(widths) <= 3.5 * ideal, "a t of one degree of freedom would be 6 times as wide"


def _of_templates(dice: random.Random, templates: int, processes: int, between: float, within: float) -> VariancePart:
    chance = [dice.gauss(0.0, between) for _ in range(templates)]
    logs = [[mean + dice.gauss(0.0, within) for _ in range(processes)] for mean in chance]
    places = [[float(t * processes + p) for p in range(processes)] for t in range(templates)]
    of_each = [t for t in range(templates) for _ in range(processes)]
    flat = [log for group in logs for log in group]
    return run_mean(flat, 0.0, drift_seen(list(zip(places, logs, strict=True))), Templates(of_each))


def test_many_processes_do_not_outweigh_what_the_machine_drifts_between_two_runs() -> None:
    """Recorded: the processes of one side of live comparisons of equal code, 20 or more each, minutes apart."""
    series: dict[tuple[str, ...], list[tuple[float, list[float]]]] = {}
    for row in json.loads((DATA / "aa.json").read_text()) + json.loads((DATA / "aa_before_jackknife.json").read_text()):
        logs = [math.log(time_s) for time_s in row["medians_s"][0::2]]  # both sides in turn: the first of each pair
        key = tuple(str(row[name]) for name in ("workload", "extra_percent", "heap", "beside", "budget_s"))
        if len(logs) >= 20:
            series.setdefault(key, []).append((row["began"], logs))
    ours, usual = [], []
    for runs in series.values():
        for (_, a), (_, b) in pairwise(sorted(runs)):
            found = contrast(a, b, 1.0)
            low, high = found.interval(LEVEL)
            ours.append(low <= 0.0 <= high)
            low, high = difference(of_independent(a), of_independent(b)).interval(LEVEL)
            usual.append(low <= 0.0 <= high)
    assert len(ours) >= 70
    assert fmean(ours) >= 0.93
    assert fmean(usual) < 0.7, "if this ceases to hold, the allowance for drift is paid for nothing"
