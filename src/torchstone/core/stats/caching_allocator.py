"""What a caching allocator takes from a device for a course of allocations: a simulation of torch's.

By c10/cuda/CUDACachingAllocator.cpp with its default settings: sizes are rounded to 512 B; blocks of up to 1 MiB come
from segments of 2 MiB, others up to 10 MiB from segments of 20 MiB, larger ones from segments of their own, rounded to
2 MiB; the smallest free block that is large enough is taken, and split where what remains is worth it; freed neighbours
become one block. Segments are not given back before memory ends, so the most that is ever reserved is what a process is
seen to hold.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

GRANULE = 512  # bytes
_MIB = 1 << 20
_SMALL, _MIDDLE = _MIB, 10 * _MIB
_SEGMENT_SMALL, _SEGMENT_MIDDLE, _ROUND_LARGE = 2 * _MIB, 20 * _MIB, 2 * _MIB


class _Block:
    """A piece of a segment. `before`, `after`: its neighbours there."""

    __slots__ = ("after", "before", "free", "place", "size", "small")

    def __init__(self, place: int, size: int, *, small: bool) -> None:
        self.place, self.size, self.small = place, size, small
        self.free = False
        self.before: _Block | None = None
        self.after: _Block | None = None

    @property
    def key(self) -> tuple[int, int]:
        """By size, then by place: as the allocator's own sets are ordered."""
        return (self.size, self.place)


class Cached:
    """An allocator without memory. `allocated`, `reserved`: bytes now; `most_…`: at most so far."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.most_allocated = self.most_reserved = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, _Block] = {}
        self._end = 0

    def take(self, size: int) -> _Block:
        """Allocate `size` bytes, more than 0."""
        need = rounded(size)
        small = need <= _SMALL
        block = self._found(need, small=small) or self._new(need, small=small)
        rest = block.size - need
        if rest >= GRANULE if small else rest > _SMALL:
            self._split(block, need)
        self.allocated += block.size
        self.most_allocated = max(self.most_allocated, self.allocated)
        return block

    def give_back(self, block: _Block) -> None:
        """Free what was taken."""
        self.allocated -= block.size
        for other in (block.before, block.after):
            if other is not None and other.free:
                block = self._joined(block, other)
        block.free = True
        insort(self._free[block.small], block.key)

    def _found(self, need: int, *, small: bool) -> _Block | None:
        free = self._free[small]
        index = bisect_left(free, (need, -1))
        if index == len(free):
            return None
        _, place = free.pop(index)
        block = self._at[place]
        block.free = False
        return block

    def _new(self, need: int, *, small: bool) -> _Block:
        if small:
            size = _SEGMENT_SMALL
        else:
            size = _SEGMENT_MIDDLE if need < _MIDDLE else -(-need // _ROUND_LARGE) * _ROUND_LARGE
        block = self._at[self._end] = _Block(self._end, size, small=small)
        self._end += size
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return block

    def _split(self, block: _Block, need: int) -> None:
        rest = self._at[block.place + need] = _Block(block.place + need, block.size - need, small=block.small)
        rest.before, rest.after, rest.free = block, block.after, True
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, need
        insort(self._free[rest.small], rest.key)

    def _joined(self, block: _Block, other: _Block) -> _Block:
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


def rounded(size: int) -> int:
    """Return the bytes that an allocation of `size` is given."""
    return -(-size // GRANULE) * GRANULE


def reserved_bytes(course: Iterable[tuple[int, int]]) -> int:
    """Return the most bytes reserved over a course of (number, bytes): allocated where positive, freed where not.

    Raises KeyError where something is freed that was not allocated.
    """
    cached, blocks = Cached(), dict[int, _Block]()
    for number, size in course:
        if size > 0:
            blocks[number] = cached.take(size)
        else:
            cached.give_back(blocks.pop(number))
    return cached.most_reserved
