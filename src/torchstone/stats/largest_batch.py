"""The largest batch whose peak memory keeps below a limit, by few looks at the peak: each may cost seconds."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.stats.peak_memory import predict_peak

MOST = 1 << 20  # items: beyond that the answer is "a million and more"
_CLOSE = 0.01  # of the batch: neighbours that near are not told apart
_LOOKS = 16


def largest_batch(peak_bytes: Callable[[int], float], limit_bytes: float, start: int = 1) -> int | None:
    """Return the largest batch, within 1 %, whose peak is at most the limit; None where a batch of 1 has more.

    `peak_bytes(batch)` does not fall with the batch. Peaks are nearly affine in it, so the line through what was seen
    (`predict_peak`) names the next batch to look at; what lies between a batch that fits and one that does not is halved
    where the line fails. The answer has been looked at itself, and is MOST at most.
    """
    seen: dict[int, float] = {}

    def fits(batch: int) -> bool:
        if batch not in seen:
            seen[batch] = peak_bytes(batch)
        return seen[batch] <= limit_bytes

    if not fits(start):
        if start == 1 or not fits(1):
            return None
    low, high = max(batch for batch in seen if seen[batch] <= limit_bytes), _least_over(seen, limit_bytes)
    while len(seen) < _LOOKS and low < MOST and (high is None or high - low > max(1, int(_CLOSE * low))):
        batch = _next(seen, limit_bytes, low, high)
        if fits(batch):
            low = batch
        else:
            high = batch
    return low


def _least_over(seen: dict[int, float], limit_bytes: float) -> int | None:
    return min((batch for batch, peak in seen.items() if peak > limit_bytes), default=None)


def _next(seen: dict[int, float], limit_bytes: float, low: int, high: int | None) -> int:
    """Return the batch that the line through the two nearest peaks puts at the limit, inside of what is open."""
    if high is None:
        guess = _on_line(seen, limit_bytes, low) if len(seen) > 1 else 2 * low
        return min(MOST, max(low + 1, guess))
    if high - low <= 2 or len(seen) > _LOOKS // 2:
        return (low + high) // 2
    a, b = seen[low], seen[high]
    guess = low + int((limit_bytes - a) / (b - a) * (high - low)) if b > a else (low + high) // 2
    margin = max(1, int(_CLOSE * low) // 2)  # past the line by a little: then the answer is closed in from both sides
    return min(high - 1, max(low + 1, guess + margin if high - guess > 2 * margin else guess))


def _on_line(seen: dict[int, float], limit_bytes: float, low: int) -> int:
    here = seen[low]
    ahead = predict_peak([(float(batch), peak) for batch, peak in seen.items()], 2.0 * low)
    slope = 0.0 if ahead is None else (ahead.value - here) / low
    return MOST if slope <= 0.0 else int(low + (limit_bytes - here) / slope)
