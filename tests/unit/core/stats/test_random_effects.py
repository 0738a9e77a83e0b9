"""Values known to different accuracy: weights, and an error that holds."""

import math
import random

import pytest

from torchstone.core.stats.random_effects import random_effects
from torchstone.core.stats.student import t_quantile


def test_equal_errors_give_the_plain_mean_and_its_own_error():
    found = random_effects([1.0, 2.0, 3.0, 4.0], [0.1] * 4)
    assert found is not None
    assert found.value == pytest.approx(2.5)
    assert found.error == pytest.approx(math.sqrt(5.0 / 3.0 / 4.0))
    assert found.df == pytest.approx(3.0)


def test_what_is_known_badly_hardly_counts():
    found = random_effects([1.0, 1.01, 0.99, 9.0], [0.01, 0.01, 0.01, 5.0])
    assert found is not None
    assert found.value == pytest.approx(1.0, abs=0.01)
    assert found.df == pytest.approx(2.0, abs=0.05)


def test_values_that_scatter_more_than_their_errors_say_count_alike():
    found = random_effects([1.0, 5.0, 1.2, 4.9], [0.001, 0.1, 0.001, 0.1])
    assert found is not None
    assert found.value == pytest.approx(2.7, abs=0.1)


def test_the_interval_holds_where_moods_change_and_errors_are_guessed():
    dice = random.Random(8)
    held = 0
    for _ in range(1000):
        errors = [0.01 * math.exp(dice.gauss(0.0, 1.0)) for _ in range(12)]
        seen = [e * math.sqrt(dice.gammavariate(8.0, 1.0 / 8.0)) for e in errors]
        found = random_effects([dice.gauss(0.0, e) + dice.gauss(0.0, 0.004) for e in errors], seen)
        held += found is not None and abs(found.value) <= t_quantile(0.975, found.df) * found.error
    assert 0.94 <= held / 1000 <= 0.995


def test_a_value_that_only_looks_sure_does_not_make_the_mean_sure():
    found = random_effects([0.03, 0.01, 0.02, 0.0, 0.03, 0.01], [0.0005, 0.02, 0.02, 0.02, 0.02, 0.02])
    assert found is not None
    assert found.value == pytest.approx(0.03, abs=0.001), "it carries nearly all of the weight"
    assert found.error > 0.01, "without it the mean would be 0.014"


def test_one_value_has_no_error():
    assert random_effects([1.0], [0.1]) is None
    with pytest.raises(ValueError, match="2 values, 1 errors"):
        random_effects([1.0, 2.0], [0.1])
