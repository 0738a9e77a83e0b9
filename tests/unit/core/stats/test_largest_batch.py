"""The largest batch within a limit, and how few looks it takes."""

import itertools
import random

import pytest

from torchstone.core.stats.largest_batch import MOST, largest_batch


class Peaks:
    """A peak for every batch, and which were looked at."""

    def __init__(self, function):
        self.function, self.looked = function, []

    def __call__(self, batch):
        self.looked.append(batch)
        return self.function(batch)


def largest(function, limit):
    return next(b - 1 for b in itertools.count(1) if function(b) > limit)


@pytest.mark.parametrize("start", [1, 4, 1000])
@pytest.mark.parametrize(("fixed", "each"), [(0.0, 3.0), (1000.0, 7.0), (99_000.0, 600.0)])
def test_of_a_line_it_is_found_in_a_handful_of_looks(fixed, each, start):
    peaks = Peaks(lambda batch: fixed + each * batch)
    found = largest_batch(peaks, 100_000.0, start)
    exact = largest(peaks.function, 100_000.0)
    assert found is not None
    assert 0.99 * exact - 1 <= found <= exact
    assert len(peaks.looked) <= 5
    assert len(set(peaks.looked)) == len(peaks.looked), "no batch is looked at twice"


def test_of_a_course_with_steps_and_bends_it_still_fits_and_the_next_percent_does_not():
    dice = random.Random(1)
    for _ in range(50):
        fixed, each, step, bend = (
            dice.uniform(0, 5e4),
            dice.uniform(1, 500),
            dice.uniform(0, 5e3),
            dice.uniform(1.0, 1.2),
        )
        peaks = Peaks(lambda b, f=fixed, e=each, s=step, p=bend: f + e * b**p + s * (b // 64))
        exact = largest(peaks.function, 1e5)
        found = largest_batch(peaks, 1e5)
        assert (found or 0) <= exact
        assert (found or 0) >= 0.97 * exact - 1
        assert len(peaks.looked) <= 17


def test_none_where_not_even_one_fits():
    assert largest_batch(lambda batch: 10.0 + batch, 10.0, 64) is None
    assert largest_batch(lambda batch: 10.0 + batch, 11.0, 64) == 1


def test_where_the_batch_takes_next_to_nothing_the_answer_ends_at_the_most_there_is():
    assert largest_batch(lambda batch: 5.0 + 1e-9 * batch, 10.0) == MOST
    assert largest_batch(lambda _: 5.0, 10.0) == MOST
