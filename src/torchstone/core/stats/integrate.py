"""Readings over a span of time: a counter's increase, a rate's integral, a gauge's readings inside."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


def increase(at_s: Sequence[float], counter: Sequence[float], begin_s: float, end_s: float) -> float | None:
    """Return by how much a cumulative counter rose from begin to end, in its unit, linear between readings.

    `at_s` ascends and is as long as `counter`. None where the readings do not reach both ends (nothing is
    extrapolated), where end <= begin, or where the counter fell (it was reset).
    """
    first, last = _at(at_s, counter, begin_s), _at(at_s, counter, end_s)
    if first is None or last is None or end_s <= begin_s or last < first:
        return None
    return last - first


def integral(at_s: Sequence[float], rate: Sequence[float], begin_s: float, end_s: float) -> float | None:
    """Return ∫ rate dt from begin to end by the trapezoid rule, in unit × seconds; None as for `increase`."""
    first, last = _at(at_s, rate, begin_s), _at(at_s, rate, end_s)
    if first is None or last is None or end_s <= begin_s:
        return None
    inner = slice(bisect_right(at_s, begin_s), bisect_left(at_s, end_s))
    times = [begin_s, *at_s[inner], end_s]
    rates = [first, *rate[inner], last]
    return sum((times[i + 1] - times[i]) * (rates[i] + rates[i + 1]) / 2.0 for i in range(len(times) - 1))


def inside(at_s: Sequence[float], values: Sequence[float], spans_s: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the readings taken within any of the spans (ends included), in order of the spans."""
    return tuple(v for begin, end in spans_s for v in values[bisect_left(at_s, begin) : bisect_right(at_s, end)])


def beside(at_s: Sequence[float], values: Sequence[float], spans_s: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the last reading before each of the spans and the first after it, those there are, in order."""
    near: set[int] = set()
    for begin, end in spans_s:
        near |= {bisect_left(at_s, begin) - 1, bisect_right(at_s, end)}
    return tuple(values[index] for index in sorted(near) if 0 <= index < len(values))


def outside(
    spans_s: Sequence[tuple[float, float]], parts: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield what of the spans lies outside the parts, which are in order and do not overlap."""
    for begin, end in spans_s:
        at = begin
        for first, last in parts:
            if first < end and last > at:
                if first > at:
                    yield at, first
                at = last
        if at < end:
            yield at, end


def _at(at_s: Sequence[float], values: Sequence[float], when_s: float) -> float | None:
    if len(at_s) < 2 or not at_s[0] <= when_s <= at_s[-1]:
        return None
    right = min(max(1, bisect_left(at_s, when_s)), len(at_s) - 1)
    gap = at_s[right] - at_s[right - 1]
    share = (when_s - at_s[right - 1]) / gap if gap > 0.0 else 0.0
    return values[right - 1] + share * (values[right] - values[right - 1])
