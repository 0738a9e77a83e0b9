"""How often damage of the size of the margin is called as good, an honest candidate accepted, the best one chosen."""

import math
from collections import Counter

import msgspec
import numpy as np
import pytest
import torch

from torchstone.analysis.advice.choices import choose
from torchstone.core.quality import judged
from torchstone.core.schema.answer import Choice
from torchstone.core.schema.quality import MARGIN, AnswerCounts, QualityVerdict
from torchstone.core.stats.interval import over_trials
from torchstone.plugins.tasks._runtimes import text_counts

DRAWS = 1000


def verdicts(items, lost, gained, right=0.85, *, labelled=True):
    """Judge counts of items that are lost and gained by chance."""
    dice = np.random.default_rng(items + int(1e5 * lost) + int(1e6 * gained))
    drawn = dice.multinomial(items, [right - lost, lost, gained, 1.0 - right - gained], size=DRAWS)
    found = dict.fromkeys(QualityVerdict, 0.0)
    for (kept, less, more, _), times in Counter(map(tuple, drawn.tolist())).items():
        of_labels = (kept, less, more) if labelled else ()
        found[judged(AnswerCounts(items, items - less - more, *of_labels), MARGIN).verdict] += times / DRAWS
    return found


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("items", [100, 381, 500, 1000, 3000, 10_000])
@pytest.mark.parametrize("gained", [0.0, 0.002, 0.01, 0.05])
def test_damage_of_the_margin_is_seldom_called_as_good(items, gained, labelled):
    assert verdicts(items, MARGIN + gained, gained, labelled=labelled)[QualityVerdict.AS_GOOD] <= 0.05


@pytest.mark.parametrize("items", [100, 500, 2000])
@pytest.mark.parametrize("churn", [0.0, 0.002, 0.01, 0.05])
def test_what_loses_nothing_is_seldom_called_worse(items, churn):
    assert verdicts(items, churn, churn)[QualityVerdict.WORSE] <= 0.025


HONEST = [(0.0, 0.0, 400), (0.001, 0.001, 1500), (0.005, 0.005, 3000), (0.01, 0.01, 4000)]


@pytest.mark.parametrize(("lost", "gained", "items"), HONEST)
def test_with_enough_items_an_honest_candidate_is_accepted(lost, gained, items):
    assert verdicts(items, lost, gained)[QualityVerdict.AS_GOOD] >= 0.9


@pytest.mark.parametrize("gained", [0.0, 0.01])
def test_with_enough_items_damage_is_found(gained):
    assert verdicts(2000, 0.03 + gained, gained)[QualityVerdict.WORSE] >= 0.9


def verdicts_on_texts(texts, more_nats, spread, *, skewed):
    """Judge drawn texts of 20 to 127 tokens, whose tokens hang together; `spread`: of texts, in nats a token."""
    dice = np.random.default_rng(texts + int(1e6 * more_nats) + int(1e4 * spread))
    found = dict.fromkeys(QualityVerdict, 0.0)
    for _ in range(DRAWS):
        tokens = dice.integers(20, 128, texts).astype(float)
        of_text = dice.exponential(spread, texts) - spread if skewed else dice.normal(0.0, spread, texts)
        more = tokens * (more_nats + of_text) + dice.normal(0.0, 0.1, texts) * np.sqrt(tokens)
        rows = np.stack([tokens, 4.0 * tokens, 4.0 * tokens + more, 0.0 * tokens, 9.0 * tokens], 1)
        counts = text_counts(torch.from_numpy(rows))
        assert counts is not None
        found[judged(counts, MARGIN).verdict] += 1 / DRAWS
    return found


MARGIN_NATS = math.log1p(MARGIN)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("spread", [0.003, 0.02])
@pytest.mark.parametrize("texts", [20, 100])
def test_a_perplexity_higher_by_the_margin_is_seldom_called_as_good(texts, spread, skewed):
    found = verdicts_on_texts(texts, MARGIN_NATS, spread, skewed=skewed)
    assert found[QualityVerdict.AS_GOOD] <= (0.08 if skewed and texts < 100 else 0.05)
    assert found[QualityVerdict.WORSE] <= 0.05


@pytest.mark.parametrize("skewed", [False, True])
def test_with_enough_texts_an_honest_language_model_is_accepted_and_damage_found(skewed):
    assert verdicts_on_texts(200, 0.001, 0.02, skewed=skewed)[QualityVerdict.AS_GOOD] >= 0.9
    assert verdicts_on_texts(100, 0.03, 0.02, skewed=skewed)[QualityVerdict.WORSE] >= 0.9


SETS, SETTINGS, TRIALS, SPREAD = 200, 9, 3, 0.01  # settings beside eager mode; spread of a trial's log
CLEAR = lambda dice: np.where(dice.random(SETTINGS) < 0.5, 0.0, dice.uniform(2.0, 10.0, SETTINGS) * MARGIN)
GREY = lambda dice: dice.uniform(0.0, 2.0, SETTINGS) * MARGIN


def chosen(losses, items):
    """Choose in drawn sets; return the shares within 1 % of the best admissible one, and with a loss above the margin.

    Settings are 0.5 to 4 times as fast as eager mode; beside their loss up to 0.5 % of items change each way.
    """
    dice = np.random.default_rng(items)
    near = wrong = 0
    for _ in range(SETS):
        lost, churn = losses(dice), dice.uniform(0.0, 0.005, SETTINGS)
        rates = np.array([1.0, *np.exp(dice.uniform(math.log(0.5), math.log(4.0), SETTINGS))])
        choices = [
            Choice(
                str(n),
                {"runtime": f"r{n}" if n else "eager"},
                TRIALS,
                throughput=value,
                throughput_low=low,
                throughput_high=high,
            )
            for n, rate in enumerate(rates)
            for value, low, high, _ in [over_trials((rate * np.exp(dice.normal(0.0, SPREAD, TRIALS))).tolist())]
        ]
        for n, (less, more) in enumerate(zip(lost + churn, churn, strict=True), start=1):
            _, only_eager, only_other = (int(one) for one in dice.multinomial(items, [1.0 - less - more, less, more]))
            right = int(0.85 * (items - only_eager - only_other))
            counts = AnswerCounts(items, items - only_eager - only_other, right, only_eager, only_other)
            choices[n] = msgspec.structs.replace(choices[n], quality=judged(counts, MARGIN))
        found = choose(choices)
        place = 0 if found is None else int(found.recommended.case_id)  # None: no setting is as good as eager mode
        admissible = np.array([True, *(lost <= MARGIN)])
        near += rates[place] >= 0.99 * rates[admissible].max()
        wrong += not admissible[place]
    return near / SETS, wrong / SETS


@pytest.mark.parametrize("items", [2000, 10_000])
def test_with_enough_items_what_is_chosen_is_within_a_hundredth_of_the_best_that_is_as_good(items):
    near, wrong = chosen(CLEAR, items)
    assert near >= 0.95
    assert wrong <= 0.05


@pytest.mark.parametrize(("losses", "items"), [(CLEAR, 872), (GREY, 10_000)])
def test_with_few_items_or_losses_near_the_margin_what_is_chosen_is_seldom_worse(losses, items):
    assert chosen(losses, items)[1] <= 0.05
