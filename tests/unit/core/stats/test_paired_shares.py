"""The score interval of a difference of paired shares, against its definition and other intervals."""

import math

import pytest
from scipy import optimize

from torchstone.core.stats.interval import items_to_decide, loss_interval, wilson


@pytest.mark.parametrize(("lost", "gained", "n"), [(1, 0, 44), (12, 2, 50), (150, 86, 1600), (3, 40, 100)])
def test_at_its_ends_the_score_of_the_likeliest_shares_is_that_of_the_level(lost, gained, n):
    for difference in loss_interval(lost, gained, n):

        def unlikely(share, d=difference):
            shares = ((lost, share + d), (gained, share), (n - lost - gained, 1.0 - 2.0 * share - d))
            return -sum(count * math.log(max(p, 1e-300)) for count, p in shares if count)

        bounds = (max(0.0, -difference), (1.0 - difference) / 2.0)
        share = optimize.minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
        deviation = math.sqrt(n * (2.0 * share + difference - difference**2))
        assert abs(lost - gained - n * difference) / deviation == pytest.approx(1.959964, rel=1e-3)


def test_without_a_difference_it_is_as_wide_as_the_items_are_few():
    z = 1.959964
    low, high = loss_interval(0, 0, 100)
    assert high == pytest.approx(z * z / (100 + z * z), rel=1e-5)
    assert low == pytest.approx(-high)


@pytest.mark.parametrize(("lost", "n"), [(1, 50), (7, 400), (40, 100)])
def test_with_losses_alone_its_upper_end_is_wilsons(lost, n):
    assert loss_interval(lost, 0, n)[1] == pytest.approx(wilson(lost / n, n)[1], rel=1e-6)


@pytest.mark.parametrize(("lost", "gained", "n"), [(3, 9, 200), (0, 5, 30), (50, 50, 100), (10, 0, 10)])
def test_it_turns_with_the_sides(lost, gained, n):
    low, high = loss_interval(lost, gained, n)
    assert (-high, -low) == pytest.approx(loss_interval(gained, lost, n), abs=1e-9)
    assert -1.0 <= low <= (lost - gained) / n <= high <= 1.0


def test_of_many_items_it_is_walds():
    lost, gained, n = 3000, 2000, 100_000
    low, high = loss_interval(lost, gained, n)
    half = 1.959964 * math.sqrt(lost + gained - (lost - gained) ** 2 / n) / n
    assert (low, high) == pytest.approx((0.01 - half, 0.01 + half), rel=1e-2)


@pytest.mark.parametrize(("lost", "gained", "n"), [(0, 0, 100), (2, 1, 300), (9, 0, 300)])
def test_so_many_items_decide(lost, gained, n):
    needed = items_to_decide(lost, gained, n, 0.01)
    assert needed is not None
    low, high = loss_interval(lost * needed / n, gained * needed / n, needed)
    assert high < 0.01 or low > 0.01
    few = 0.99 * needed
    low, high = loss_interval(lost * few / n, gained * few / n, few)
    assert low < 0.01 < high


def test_a_loss_of_the_margin_is_never_decided():
    assert items_to_decide(3, 0, 300, 0.01) is None
    assert items_to_decide(0, 0, 10, 0.01) == pytest.approx(381, abs=1)


@pytest.mark.parametrize(("lost", "gained", "n"), [(0, 0, 0), (-1, 0, 5), (3, 3, 5)])
def test_counts_that_cannot_be_are_refused(lost, gained, n):
    with pytest.raises(ValueError, match="items"):
        loss_interval(lost, gained, n)
