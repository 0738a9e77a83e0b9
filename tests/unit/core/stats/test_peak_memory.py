"""A line over the batch: what it predicts, and how sure it is."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.stats.peak_memory import (
    MOST,
    CachingAllocator,
    allocated_bytes,
    largest_batch,
    predict_peak,
    reserved_bytes,
)

MB = 1024.0**2


def test_is_silent_under_two_batches():
    assert predict_peak([], 8) is None
    assert predict_peak([(4, 100.0), (4, 120.0)], 8) is None


@given(
    st.floats(1e6, 1e10), st.floats(1e3, 1e9), st.lists(st.sampled_from([1, 2, 4, 8, 16, 64]), min_size=2, unique=True)
)
def test_continues_a_line_exactly(fixed, per_item, batches):
    peak = predict_peak([(b, fixed + b * per_item) for b in batches], 512)
    assert peak is not None
    true = fixed + 512 * per_item
    assert peak.value == pytest.approx(true, rel=1e-6)
    assert peak.low <= true * (1 + 1e-9)
    assert true * (1 - 1e-9) <= peak.high


@pytest.mark.parametrize("block", [2 * MB, 20 * MB])
def test_bounds_hold_one_doubling_on_where_an_allocator_rounds_up(block):
    """Blocks of 2 and 20 MiB, as torch's caching allocator hands them out."""

    def rounded(batch):
        return -(-(800 * MB + batch * 11.3 * MB) // block) * block

    for batches in itertools.combinations((16, 32, 64, 128), 2):
        peak = predict_peak([(b, rounded(b)) for b in batches], 2 * batches[-1])
        assert peak is not None
        assert peak.low - block <= rounded(2 * batches[-1]) <= peak.high + block


def test_of_several_readings_of_a_batch_the_largest_counts():
    assert predict_peak([(1, 10.0), (2, 15.0), (2, 20.0)], 4) == predict_peak([(1, 10.0), (2, 20.0)], 4)


def test_more_memory_for_a_larger_batch_or_as_much_never_less():
    """Small batches may measure less than smaller ones: a workspace that is no longer taken."""
    peaks = [predict_peak([(1, 120.0), (2, 100.0)], b) for b in (2, 4, 64)]
    values = [peak.value for peak in peaks if peak is not None]
    assert values == sorted(values)
    assert len(values) == 3


def test_between_measured_batches_it_interpolates():
    peak = predict_peak([(1, 10.0), (3, 30.0), (5, 90.0)], 4)
    assert peak is not None
    assert peak.value == pytest.approx(60.0)


MIB = 1 << 20


@pytest.mark.parametrize(("size", "given"), [(1, 512), (512, 512), (513, 1024), (3 * MIB, 3 * MIB)])
def test_sizes_are_rounded_to_blocks(size, given):
    assert allocated_bytes(size) == given


@pytest.mark.parametrize(
    ("size", "segment"),
    [(1, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (9 * MIB, 20 * MIB), (10 * MIB, 10 * MIB),
     (11 * MIB - 512, 12 * MIB), (101 * MIB, 102 * MIB)],
)  # fmt: skip
def test_the_segment_that_a_first_allocation_takes(size, segment):
    assert reserved_bytes([(0, size)]) == segment


def test_small_ones_share_a_segment_until_it_is_full():
    assert reserved_bytes([(n, MIB // 2) for n in range(4)]) == 2 * MIB
    assert reserved_bytes([(n, MIB // 2) for n in range(5)]) == 4 * MIB


def test_what_is_freed_is_taken_again_and_neighbours_become_one():
    halves = [(0, 8 * MIB), (1, 8 * MIB), (0, -1), (1, -1)]
    assert reserved_bytes([*halves, (2, 18 * MIB)]) == 20 * MIB, "two freed halves and the rest are one block"
    kept = [(0, 8 * MIB), (1, 8 * MIB), (0, -1)]
    assert reserved_bytes([*kept, (2, 9 * MIB)]) == 40 * MIB, "9 MiB do not go into a gap of 8"


def test_a_large_block_is_split_only_where_more_than_a_mebibyte_remains():
    cached = CachingAllocator()
    cached.give_back(cached.take(100 * MIB))
    block = cached.take(99 * MIB)
    assert (block.size, cached.allocated) == (100 * MIB, 100 * MIB), "a rest of 1 MiB is given away with it"
    cached.give_back(block)
    assert cached.take(98 * MIB).size == 98 * MIB
    assert cached.most_reserved == 100 * MIB


def test_random_courses_keep_the_books():
    dice = random.Random(0)
    cached, need = CachingAllocator(), 0
    taken: list[Any] = []
    for _ in range(3000):
        if taken and dice.random() < 0.48:
            block, size = taken.pop(dice.randrange(len(taken)))
            cached.give_back(block)
            need -= size
        else:
            size = int(2 ** dice.uniform(0, 25))
            taken.append((cached.take(size), allocated_bytes(size)))
            need += allocated_bytes(size)
        assert need <= cached.allocated <= cached.reserved
    places = sorted((block.place, block.place + block.size) for block, _ in taken)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(places)), "blocks overlap"
    for block, _ in taken:
        cached.give_back(block)
    assert cached.allocated == 0
    assert len(cached._at) == sum(block.before is None for block in cached._at.values()), "each segment is whole again"


def test_what_was_never_taken_cannot_be_freed():
    with pytest.raises(KeyError):
        reserved_bytes([(3, -1)])


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
