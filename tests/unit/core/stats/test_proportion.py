"""Wilson's interval: published values, and its level by counting."""

import math

import pytest

from torchstone.core.stats.proportion import wilson


def test_published_values():
    assert list(wilson(0.1, 10)) == pytest.approx([0.0179, 0.4042], abs=1e-4)
    assert wilson(0.0, 20)[0] == 0.0
    assert list(wilson(1.0, 20)) == pytest.approx([0.8389, 1.0], abs=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.93])
def test_it_covers_what_it_says(share):
    n, covered = 50, 0.0
    for hits in range(n + 1):
        low, high = wilson(hits / n, n)
        if low <= share <= high:
            covered += math.comb(n, hits) * share**hits * (1.0 - share) ** (n - hits)
    assert 0.92 <= covered <= 0.98


@pytest.mark.parametrize(("share", "n"), [(0.5, 0), (1.2, 5), (-0.1, 5)])
def test_what_is_no_share(share, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(share, n)
