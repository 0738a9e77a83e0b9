"""The best split of values in two kinds, and how far they lie apart."""

import math
import random

import pytest

from torchstone.core.stats.modes import FEWEST, split


def test_two_kinds_are_told_apart():
    values = [1.0, 1.01, 0.99, 1.02, 0.98] * 6 + [2.0, 2.02, 1.98, 2.04, 1.96] * 4
    found = split(values)
    assert found is not None
    assert found.low == pytest.approx(1.0, rel=0.01)
    assert found.high == pytest.approx(2.0, rel=0.01)
    assert found.share == pytest.approx(0.4)
    assert found.separation > 20
    assert found.low < found.border < found.high


def test_one_kind_is_not_clean():
    rng = random.Random(3)
    normal = [split([math.exp(rng.gauss(0.0, 0.1)) for _ in range(200)]) for _ in range(40)]
    even = [split([math.exp(rng.uniform(0.0, 0.3)) for _ in range(200)]) for _ in range(40)]
    assert all(found is not None and 2.2 < found.separation < 3.4 for found in normal)
    assert all(found is not None and 3.0 < found.separation < 4.2 for found in even)


def test_too_few_or_equal_values_have_no_split():
    assert split([1.0] * (FEWEST - 1)) is None
    assert split([1.0] * 50) is None
    two = split([1.0] * 15 + [2.0] * 15)
    assert two is not None
    assert two.separation > 1e6
