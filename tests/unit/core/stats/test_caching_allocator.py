"""What a caching allocator reserves, against courses worked out by hand from the source of torch's."""

import itertools
import random
from typing import Any

import pytest

from torchstone.core.stats.caching_allocator import Cached, reserved_bytes, rounded

MIB = 1 << 20


@pytest.mark.parametrize(("size", "given"), [(1, 512), (512, 512), (513, 1024), (3 * MIB, 3 * MIB)])
def test_sizes_are_rounded_to_blocks(size, given):
    assert rounded(size) == given


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
    cached = Cached()
    cached.give_back(cached.take(100 * MIB))
    block = cached.take(99 * MIB)
    assert (block.size, cached.allocated) == (100 * MIB, 100 * MIB), "a rest of 1 MiB is given away with it"
    cached.give_back(block)
    assert cached.take(98 * MIB).size == 98 * MIB
    assert cached.most_reserved == 100 * MIB


def test_random_courses_keep_the_books():
    dice = random.Random(0)
    cached, need = Cached(), 0
    taken: list[Any] = []
    for _ in range(3000):
        if taken and dice.random() < 0.48:
            block, size = taken.pop(dice.randrange(len(taken)))
            cached.give_back(block)
            need -= size
        else:
            size = int(2 ** dice.uniform(0, 25))
            taken.append((cached.take(size), rounded(size)))
            need += rounded(size)
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
