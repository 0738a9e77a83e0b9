"""How a ratio is put into words: with its interval, without one, or not at all."""

import pytest

from torchstone.analysis.advice.speed import times_words
from torchstone.analysis.advice.trainings import Span


@pytest.mark.parametrize(
    ("gain", "words"),
    [(Span(2.0, 1.9, 2.1), "2 [1.9, 2.1]"), (Span(4.0), "4"), (Span(2.0, 0.5, 9.0), "not known how many")],
)
def test_a_ratio_in_words(gain, words):
    assert times_words(gain) == words
