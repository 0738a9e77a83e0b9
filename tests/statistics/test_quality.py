"""How often damage of the size of the margin is called as good, and an honest candidate is accepted."""

from collections import Counter

import numpy as np
import pytest

from torchstone.core.quality import judged
from torchstone.core.schema.quality import MARGIN, AnswerCounts, QualityVerdict

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
