"""Peak memory: at batch sizes not yet tried, the largest batch below a limit, and what a caching allocator reserves."""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import NamedTuple

_MIB = 1 << 20
_CUBLAS = 2 * 4 * _MIB + 8 * 16 * 1024
_CUBLAS_LARGE = 32 * _MIB
_LARGE = ("9", "10", "12")  # major versions: Hopper, and Blackwell of torch 2.12 and newer
_HIPBLAS, _HIPBLAS_LARGE, _HIPBLAS_LT = 32 * _MIB, 128 * _MIB, 76 * _MIB


def workspace_bytes(kind: str, capability: str | None) -> int:
    """Return the bytes for one thread on a device. `capability`: as torch calls it (9.0; gfx942); None: not known."""
    known = capability or ""
    if kind == "cuda":
        return _CUBLAS_LARGE if known.partition(".")[0] in _LARGE else _CUBLAS
    if kind == "rocm":
        return _HIPBLAS_LT + (_HIPBLAS_LARGE if known.startswith(("gfx94", "gfx95")) else _HIPBLAS)
    return 0


# What a caching allocator takes from a device for a course of allocations: a simulation of torch's.
#
# By c10/cuda/CUDACachingAllocator.cpp with its default settings: sizes are rounded to 512 B; blocks of up to 1 MiB
# come from segments of 2 MiB, others up to 10 MiB from segments of 20 MiB, larger ones from segments of their own,
# rounded to 2 MiB; the smallest free block that is large enough is taken, and split where what remains is worth it;
# freed neighbours become one block. Segments are not given back before memory ends, so the most that is ever reserved
# is what a process is seen to hold.

GRANULE = 512  # bytes
_SMALL, _MIDDLE = _MIB, 10 * _MIB
_SEGMENT_SMALL, _SEGMENT_MIDDLE, _ROUND_LARGE = 2 * _MIB, 20 * _MIB, 2 * _MIB


class _Piece:
    """A piece of a segment. `before`, `after`: its neighbours there."""

    __slots__ = ("after", "before", "free", "place", "size", "small")

    def __init__(self, place: int, size: int, *, small: bool) -> None:
        self.place, self.size, self.small = place, size, small
        self.free = False
        self.before: _Piece | None = None
        self.after: _Piece | None = None

    @property
    def key(self) -> tuple[int, int]:
        """By size, then by place: as the allocator's own sets are ordered."""
        return (self.size, self.place)


class CachingAllocator:
    """An allocator without memory. `allocated`, `reserved`: bytes now; `most_…`: at most so far."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, _Piece] = {}
        self._end = 0

    def take(self, size: int) -> _Piece:
        """Allocate `size` bytes, more than 0."""
        need = allocated_bytes(size)
        small = need <= _SMALL
        block = self._smallest_free(need, small=small) or self._new(need, small=small)
        rest = block.size - need
        if rest >= GRANULE if small else rest > _SMALL:
            self._split(block, need)
        self.allocated += block.size
        self.most_allocated = max(self.most_allocated, self.allocated)
        return block

    def give_back(self, block: _Piece) -> None:
        """Free what was taken."""
        self.allocated -= block.size
        for other in (block.before, block.after):
            if other is not None and other.free:
                block = self._joined(block, other)
        block.free = True
        insort(self._free[block.small], block.key)

    def _smallest_free(self, need: int, *, small: bool) -> _Piece | None:
        free = self._free[small]
        index = bisect_left(free, (need, -1))
        if index == len(free):
            return None
        _, place = free.pop(index)
        block = self._at[place]
        block.free = False
        return block

    def _new(self, need: int, *, small: bool) -> _Piece:
        if small:
            size = _SEGMENT_SMALL
        else:
            size = _SEGMENT_MIDDLE if need < _MIDDLE else -(-need // _ROUND_LARGE) * _ROUND_LARGE
        block = self._at[self._end] = _Piece(self._end, size, small=small)
        self._end += size
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return block

    def _split(self, block: _Piece, need: int) -> None:
        rest = self._at[block.place + need] = _Piece(block.place + need, block.size - need, small=block.small)
        rest.before, rest.after, rest.free = block, block.after, True
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, need
        insort(self._free[rest.small], rest.key)

    def _joined(self, block: _Piece, other: _Piece) -> _Piece:
        """Return the two as one; `other` is free, and leaves the list of what is."""
        free = self._free[other.small]
        del free[bisect_left(free, other.key)]
        first, second = (block, other) if block.place < other.place else (other, block)
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        first.free = False
        del self._at[second.place]
        return first


def allocated_bytes(size: int) -> int:
    """Return the bytes that an allocation of `size` is given."""
    return -(-size // GRANULE) * GRANULE


def reserved_bytes(course: Iterable[tuple[int, int]]) -> int:
    """Return the most bytes reserved over a course of (number, bytes): allocated where positive, freed where not.

    Raises KeyError where something is freed that was not allocated.
    """
    cached, blocks = CachingAllocator(), dict[int, _Piece]()
    for number, size in course:
        if size > 0:
            blocks[number] = cached.take(size)
        else:
            cached.give_back(blocks.pop(number))
    return cached.most_reserved


MOST = 1 << 20  # items: beyond that the answer is "a million and more"
_CLOSE = 0.01  # of the batch: neighbours that near count as equal
_NEAR = 1.1  # times the batch: a line between batches that near is straight enough
_LOOKS = 16


def largest_batch(
    peak_bytes: Callable[[int], float],
    limit_bytes: float,
    start: int = 1,
    seen: MutableMapping[int, float] | None = None,
) -> int | None:
    """Return the largest batch, within 1 %, whose peak is at most the limit; None where a batch of 1 has more.

    `peak_bytes(batch)` does not fall with the batch. Peaks are nearly affine in it (Gao et al., ESEC/FSE 2020), so the
    line through the two nearest names the next batch to look at, and ends the search where it leaves room for less than
    1 % more; what lies between a batch that fits and one that does not is halved where the line fails. The answer has
    been looked at itself, and is MOST at most. `seen`: peaks that are known, to which those looked at are added.
    """
    seen = {} if seen is None else seen
    for batch in (start, 1) if start > 1 else (1,):
        if batch not in seen:
            seen[batch] = peak_bytes(batch)
        if seen[batch] <= limit_bytes:
            break
    for _ in range(_LOOKS):
        low = max((batch for batch, peak in seen.items() if peak <= limit_bytes), default=None)
        high = min((batch for batch, peak in seen.items() if peak > limit_bytes), default=None)
        if low is None:
            return None
        guess = _next(seen, limit_bytes, low, high)
        if low >= MOST or guess <= low or (high is not None and high - low <= max(1.0, _CLOSE * low)):
            return low
        seen[guess] = peak_bytes(guess)
    return max(batch for batch, peak in seen.items() if peak <= limit_bytes)


def _next(seen: MutableMapping[int, float], limit_bytes: float, low: int, high: int | None) -> int:
    """Return the batch to look at next, inside of what is open; `low` where a line says that it is the answer."""
    if high is None:
        if len(seen) < 2:
            return min(MOST, 2 * low)
        before = max((batch for batch in seen if batch < low), default=None)
        if before is None:
            return min(MOST, 2 * low)
        return _open(low, _on(seen, limit_bytes, before, low), MOST)
    if len(seen) > _LOOKS // 2:
        return (low + high) // 2
    found = _open(low, _on(seen, limit_bytes, low, high), high - 1) if high - low > 1 else low
    # A line to a batch far off bends: then the next percent is looked at, too.
    return low + int(2.0 * _CLOSE * low) + 1 if found == low and high > _NEAR * low + 1.0 else found


def _on(seen: MutableMapping[int, float], limit_bytes: float, a: int, b: int) -> float:
    """Return the batch that the line through two puts at the limit."""
    slope = (seen[b] - seen[a]) / (b - a)
    return float(MOST) if slope <= 0.0 else a + (limit_bytes - seen[a]) / slope


def _open(low: int, guess: float, most: int) -> int:
    """Return a guess between `low` and `most`; `low` where the guess is no further than what counts as equal."""
    if guess < low + max(1.0, _CLOSE * low):
        return low
    return min(most, int(guess))


_EXTRAPOLATED = 0.03  # of the part that was not measured: rounding of the allocator, workspaces that grow in steps


class PredictedPeak(NamedTuple):
    """A predicted peak, and bounds within which it is expected, in bytes."""

    value: float
    low: float
    high: float


def predict_peak(points: Sequence[tuple[float, float]], batch: float) -> PredictedPeak | None:
    """Return the peak (bytes) at `batch` from measured (batch, peak in bytes); None under two different batches.

    Peak memory is affine in the batch: weights, gradients and optimizer state, plus the activations of each item
    (Gao et al., Estimating GPU memory consumption of deep learning models, ESEC/FSE 2020; DeepSpeed's autotuner
    computes its largest micro-batch so). The line goes through the two largest batches, where fixed blocks and small
    workspaces weigh least; the slopes of the other pairs, and 3 % of what was not measured, give the bounds.
    """
    largest: dict[float, float] = {}
    for size, peak in points:
        largest[size] = max(peak, largest.get(size, 0.0))
    if len(largest) < 2:
        return None
    sizes = sorted(largest)
    # a larger batch needs no less: where one measured less, a workspace was left out that may be taken again
    peaks = list(itertools.accumulate((largest[size] for size in sizes), max))
    slopes = [
        (b - a) / (y - x) for (x, y), (a, b) in zip(itertools.pairwise(sizes), itertools.pairwise(peaks), strict=True)
    ]
    beyond = batch - sizes[-1]
    if beyond <= 0.0:
        value = _between(sizes, peaks, slopes, batch)
        return PredictedPeak(value, value * (1.0 - _EXTRAPOLATED), value * (1.0 + _EXTRAPOLATED))
    local, overall = slopes[-1], (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
    # a slope from two points close together says little: it widens the bounds by no more than the local one doubled
    widest = min(max(slopes), 2.0 * local) if local > 0.0 else max(slopes)
    margin = _EXTRAPOLATED * local * beyond
    low, high = min(local, overall) * beyond - margin, widest * beyond + margin
    return PredictedPeak(peaks[-1] + local * beyond, peaks[-1] + low, peaks[-1] + high)


def _between(sizes: Sequence[float], peaks: Sequence[float], slopes: Sequence[float], batch: float) -> float:
    for size, peak, slope in reversed(list(zip(sizes, peaks, slopes, strict=False))):
        if batch >= size:
            return peak + slope * (batch - size)
    return peaks[0]
