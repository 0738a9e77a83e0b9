"""Which shape of a matrix product is fastest: a guided search over (M, N, K), in a few seconds.

A plain scan (mamf-finder, Stas Bekman, Machine Learning Engineering, ch. "Compute/Accelerator/Benchmarks") takes from
half an hour to days. The rate is a smooth hill over log M, log N, log K, with steps where a size divides into tiles: so
few seeds find its foot, successive halving (Jamieson & Talwalkar, AISTATS 2016) the best of them, and a walk in ever
smaller steps its top. What a shape is worth is the best of its blocks, each a few products long: disturbances only
ever slow a block down (Chen & Revels, Robust benchmarking in noisy environments, HPEC 2016).

Knows no torch: what times a block is given to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from torchstone.execution.timing.clock import Clock

_SIZES = (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384)
_STEPS = (2.0, 1.5, 1.25, 1.125)  # of one size at a time, then of all three together
_HALVING_SHARE = 0.3  # of the budget
_FINAL_SHARE = 0.22
_FINALISTS = 3
_NEAR = 0.85  # of the best: so near, a shape may be as good: its blocks were few
_TILE = 32


class Shape(NamedTuple):
    """An M × K matrix times a K × N matrix; `transposed`: the second lies as N × K, as in torch.nn.Linear."""

    m: int
    n: int
    k: int
    transposed: bool = True

    @property
    def flops(self) -> float:
        """Operations of one product, 2 a multiply-add."""
        return 2.0 * self.m * self.n * self.k

    @property
    def largest(self) -> int:
        """Numbers in the largest of its three matrices."""
        return max(self.m * self.k, self.k * self.n, self.m * self.n)

    def __str__(self) -> str:
        return f"{self.m} × {self.k} times {self.k} × {self.n}{' (transposed)' if self.transposed else ''}"


class Found(NamedTuple):
    """The fastest shape, its rate in FLOP/s, and how many shapes and blocks were tried."""

    shape: Shape
    rate: float
    shapes: int
    blocks: int


Block = Callable[[Shape], float]  # times one block of products, and returns their rate in FLOP/s


class ShapeSearch:
    """One search. `most_numbers`: the largest matrix that may be asked for; `most_s`: the longest product."""

    def __init__(self, block: Block, most_numbers: int, most_s: float, clock: Clock) -> None:
        self._block, self._clock = block, clock
        self._most_numbers, self._most_s = most_numbers, most_s
        self._best: dict[Shape, float] = {}
        self._blocks = 0

    def warm_up(self, budget_s: float) -> None:
        """Time products whose rate does not count: clocks and threads settle meanwhile."""
        ends_s, shape = self._clock() + budget_s, Shape(512, 512, 512)
        while self._clock() < ends_s and shape.largest <= self._most_numbers:
            self._block(shape)

    def run(self, budget_s: float) -> Found:
        """Search for so many seconds; the block in progress is finished. Raises ValueError if not one shape fits."""
        begin_s = self._clock()
        self._halve(list(self._seeds()), begin_s + _HALVING_SHARE * budget_s)
        self._climb(begin_s + (1.0 - _FINAL_SHARE) * budget_s)
        self._settle(begin_s + budget_s)
        if not self._best:
            raise ValueError(f"no product of matrices of at most {self._most_numbers} numbers to try")
        top = self._ranked()[0]
        return Found(top, self._best[top], len(self._best), self._blocks)

    def _seeds(self) -> Iterator[Shape]:
        """Yield cubes from small to large, then flat, tall and deep ones of about the same work as the best cube.

        Each is tried as it is yielded: the rate so far tells which would take too long.
        """
        for size in _SIZES:
            shape = Shape(size, size, size)
            if not self._try(shape):
                break
            yield shape
        if not self._best:
            return
        top = self._ranked()[0].m
        for m, n, k in ((4, 1, 1), (1, 4, 1), (2, 2, 1), (2, 2, 0.5), (1, 1, 4), (4, 4, 0.25)):
            shape = _rounded(m * top, n * top, k * top, transposed=True)
            if self._try(shape):
                yield shape
        shape = Shape(top, top, top, transposed=False)
        if self._try(shape):
            yield shape

    def _halve(self, shapes: Sequence[Shape], until_s: float) -> None:
        """Give the better half of the shapes a block more, again and again, until few are left or time is up."""
        rounds = 1
        while len(shapes) > _FINALISTS:
            shapes = sorted(shapes, key=self._best.__getitem__, reverse=True)[: (len(shapes) + 1) // 2]
            for shape in shapes * rounds:
                if self._clock() >= until_s:
                    return
                self._again(shape)
            rounds += 1

    def _climb(self, until_s: float) -> None:
        """Walk from the best shape to its neighbours while one is better, in smaller and smaller steps."""
        for factor in _STEPS:
            moved = True
            while moved:
                top = self._ranked()[0] if self._best else None
                if top is None:
                    return
                moved = False
                for shape in _neighbours(top, factor):
                    if self._clock() >= until_s:
                        return
                    # The best of many blocks reads high: a shape that comes near gets as many, and so does the top.
                    if self._try(shape) and self._best[shape] > 0.97 * self._best[top]:
                        self._again(shape)
                        self._again(top)
                    moved = moved or self._best.get(shape, 0.0) > self._best[top]

    def _settle(self, until_s: float) -> None:
        """Time the best few in turn until the time is up, and the shortest of those that come near.

        On a machine that is shared a short product finds a gap between its neighbours where a long one never does.
        """
        ranked = self._ranked()
        near = [shape for shape in ranked if self._best[shape] >= _NEAR * self._best[ranked[0]]]
        finalists = dict.fromkeys((*ranked[:_FINALISTS], *sorted(near, key=lambda shape: shape.flops)[:1]))
        for shape in itertools.cycle(finalists):
            if self._clock() >= until_s:
                return
            self._again(shape)

    def _try(self, shape: Shape) -> bool:
        """Time a shape that was not tried yet; False where it is too large, too small, or known already."""
        if shape in self._best or shape.largest > self._most_numbers or min(shape[:3]) < _TILE:
            return False
        rate = max(self._best.values(), default=0.0)
        if rate > 0.0 and shape.flops / rate > self._most_s:
            return False
        self._best[shape] = self._timed(shape)
        return True

    def _again(self, shape: Shape) -> None:
        self._best[shape] = max(self._best[shape], self._timed(shape))

    def _timed(self, shape: Shape) -> float:
        self._blocks += 1
        return self._block(shape)

    def _ranked(self) -> list[Shape]:
        return sorted(self._best, key=self._best.__getitem__, reverse=True)


def _neighbours(shape: Shape, factor: float) -> Iterator[Shape]:
    m, n, k, transposed = shape
    for up in (factor, 1.0 / factor):
        yield _rounded(m * up, n, k, transposed=transposed)
        yield _rounded(m, n * up, k, transposed=transposed)
        yield _rounded(m, n, k * up, transposed=transposed)
    for up in (factor, 1.0 / factor):
        yield _rounded(m * up, n * up, k * up, transposed=transposed)
    yield Shape(m, n, k, not transposed)


def _rounded(m: float, n: float, k: float, *, transposed: bool) -> Shape:
    rows, columns, depth = (max(_TILE, _TILE * round(size / _TILE)) for size in (m, n, k))
    return Shape(rows, columns, depth, transposed)
