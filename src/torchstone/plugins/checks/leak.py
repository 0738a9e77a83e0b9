"""Memory that grows over the steady steps: a leak, which ends a long run."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from torchstone.core import units
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Series, Trial
from torchstone.core.stats.trend import rising, sen_slope
from torchstone.plugins.checks._cases import sound, windows
from torchstone.plugins.protocols import Check

FEWEST = 8  # readings in a window; under these no rise is significant
_MOST = 64  # medians of neighbours stand for more of them: the slopes of all pairs are compared
_SURE = 3.1  # standard deviations; one in a thousand without a trend
_LEAST_BYTES, _LEAST_SHARE = 16 << 20, 0.01  # over the window; less is the allocators' own business
_LASTING = 0.5  # what warms up slows down: the second half must rise at least so much of the first half's rate
_MEMORIES = {"rss_bytes": "resident memory", "device_memory_used_bytes": "device memory"}


class Leak:
    """Fires where every trial's memory rises, significantly and to the end, over a steady window."""

    describes = "resident or device memory that grows over the steady window"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for each memory of a Case that leaks."""
        for case_id, _, trials in sound(run):
            for metric, name in _MEMORIES.items():
                found = [rise for trial in trials for rise in _rises(trial, metric)]
                if found and all(found):
                    rise = units.quantity(1000.0 * median(found), "bytes")
                    message = f"{name} grew steadily, by {rise} per 1,000 steps"
                    yield Finding("leak", Severity.WARNING, message, _ADVICE, case_id)


_ADVICE = (
    "check what each step keeps: a loss with its graph (keep loss.item()), a growing list or cache; "
    "a data set still being loaded into memory looks the same until the end of its first epoch"
)


def _rises(trial: Trial, metric: str) -> Iterator[float]:
    """Yield for each window with enough readings how many bytes a step adds; 0 where memory does not rise."""
    series = next((s for s in trial.series if s.metric == metric and s.rank == 0), None)
    if series is None or (metric.startswith("device_") and _in_company(trial)):
        return
    for name, times in windows(trial):
        span = trial.values("window_span_s", window=name)
        inside = _within(series, *span) if len(span) == 2 else []
        if len(inside) >= FEWEST and times:
            yield _rise(inside) * (span[1] - span[0]) / len(times)


def _rise(points: list[tuple[float, float]]) -> float:
    """Return the rise of (seconds, bytes) in bytes/s; 0 if it is none."""
    points = _thinned(points)
    at_s, values = [at for at, _ in points], [value for _, value in points]
    slope = sen_slope(at_s, values)
    if slope is None or slope <= 0.0 or rising(values) < _SURE:
        return 0.0
    if slope * (at_s[-1] - at_s[0]) < max(_LEAST_BYTES, _LEAST_SHARE * median(values)):
        return 0.0
    half = len(points) // 2
    early, late = sen_slope(at_s[:half], values[:half]), sen_slope(at_s[-half:], values[-half:])
    if early is None or late is None or late < _LASTING * max(early, slope):
        return 0.0
    return slope


def _within(series: Series, begin_s: float, end_s: float) -> list[tuple[float, float]]:
    return [(at, v) for at, v in zip(series.at_s, series.values, strict=True) if begin_s <= at <= end_s]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    width = -(-len(points) // _MOST)
    groups = [points[i : i + width] for i in range(0, len(points), width)]
    return [(median(at for at, _ in group), median(v for _, v in group)) for group in groups]


def _in_company(trial: Trial) -> bool:
    return any(s.metric == "device_other_processes" and max(s.values, default=0.0) > 0.0 for s in trial.series)


PLUGIN: Check = Leak()
