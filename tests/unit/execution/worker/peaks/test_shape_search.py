"""The guided search on surfaces whose top is known, with a clock that moves only as the products take."""

import math
import random
import statistics

import pytest
from fakes import FakeClock

from torchstone.execution.worker.peaks.shape_search import Shape, ShapeSearch

GIGA = 1e9


class Hill:
    """A device: rates fall off log-quadratically from one shape, with steps of tiles, and blocks may be disturbed."""

    def __init__(self, clock: FakeClock, top: tuple[int, int, int], noise: float = 0.0, seed: int = 0) -> None:
        self._clock, self._top, self._noise, self._dice = clock, top, noise, random.Random(seed)
        self.asked: list[Shape] = []

    def true(self, shape: Shape) -> float:
        away = sum(math.log2(size / best) ** 2 for size, best in zip(shape[:3], self._top, strict=True))
        tiles = math.prod(size / (64 * math.ceil(size / 64)) for size in shape[:3])
        return 200.0 * GIGA * math.exp(-0.05 * away) * tiles * (1.0 if shape.transposed else 0.9)

    def block(self, shape: Shape) -> float:
        self.asked.append(shape)
        rate = self.true(shape) / (1.0 + abs(self._dice.gauss(0.0, self._noise)))
        self._clock.sleep(max(0.02, shape.flops / rate))
        return rate


def searched(top, noise=0.0, seed=0, budget_s=7.0, numbers=1 << 24, most_s=0.3):
    clock = FakeClock()
    hill = Hill(clock, top, noise, seed)
    return ShapeSearch(hill.block, numbers, most_s, clock).run(budget_s), hill, clock


@pytest.mark.parametrize("top", [(1024, 1024, 1024), (1536, 768, 3072), (4096, 512, 512), (320, 320, 320)])
def test_it_comes_within_2_percent_of_the_top_in_seven_seconds(top):
    found, hill, clock = searched(top)
    assert hill.true(found.shape) > 0.98 * hill.true(Shape(*top))
    assert clock.now_s < 7.5
    assert found.rate == hill.true(found.shape)


def test_it_comes_near_where_blocks_are_disturbed():
    """A block takes up to half as long again, as beside a neighbour: the best of several blocks sees through most."""
    reached = []
    for seed in range(30):
        found, hill, _ = searched((1536, 768, 3072), noise=0.2, seed=seed)
        reached.append(hill.true(found.shape) / (200.0 * GIGA))
    assert statistics.median(reached) > 0.95
    assert min(reached) > 0.85


def test_no_matrix_is_larger_and_no_product_longer_than_allowed():
    found, hill, _ = searched((8192, 8192, 8192), numbers=1 << 22, most_s=0.1)
    assert max(shape.largest for shape in hill.asked) <= 1 << 22
    assert max(shape.flops / 200e9 for shape in hill.asked) <= 0.1
    assert found.shape.flops / 200e9 > 0.02, "yet it goes as far as it may"


def test_shapes_that_the_device_refuses_are_passed_over():
    clock = FakeClock()
    hill = Hill(clock, (1024, 1024, 1024))
    refusing = ShapeSearch(lambda s: 0.0 if s.transposed else hill.block(s), 1 << 24, 0.3, clock)
    found = refusing.run(3.0)
    assert not found.shape.transposed
    assert found.rate > 0.0


def test_a_device_too_small_for_any_seed_is_an_error():
    with pytest.raises(ValueError, match="no product"):
        searched((1024, 1024, 1024), numbers=100)


def test_warming_up_leaves_no_trace():
    clock = FakeClock()
    hill = Hill(clock, (1024, 1024, 1024))
    search = ShapeSearch(hill.block, 1 << 24, 0.3, clock)
    search.warm_up(1.0)
    warm = len(hill.asked)
    found = search.run(2.0)
    assert warm > 10
    assert found.blocks == len(hill.asked) - warm
