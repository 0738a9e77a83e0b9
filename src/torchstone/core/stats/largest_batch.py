"""The largest batch whose peak memory stays below a limit, with few evaluations: each may take seconds."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

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
