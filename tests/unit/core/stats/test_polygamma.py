"""Derivatives of log gamma, beside scipy's."""

import pytest
from scipy import special

from torchstone.core.stats.polygamma import digamma, inverse_trigamma, trigamma


@pytest.mark.parametrize("x", [0.05, 0.25, 0.5, 1.0, 2.5, 7.99, 8.0, 40.0, 1e4])
def test_they_are_scipys(x):
    assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-10, abs=1e-11)
    assert trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-10)


@pytest.mark.parametrize("y", [1e-4, 0.05, 0.9, 1.0, 3.0, 500.0])
def test_the_inverse_gives_back_what_went_in(y):
    assert trigamma(inverse_trigamma(y)) == pytest.approx(y, rel=1e-9)


@pytest.mark.parametrize("function", [digamma, trigamma, inverse_trigamma])
def test_only_positive_numbers_have_one(function):
    with pytest.raises(ValueError, match="positive"):
        function(0.0)
