"""Energy finer than a trial: of groups of steps, as short as the counter tells apart, each with its bounds.

A counter is known only where it was read, and moves only at its ticks. So the energy of a span lies between that of the
readings just inside it and that of the readings just around it (interval arithmetic: Moore 1966, Interval Analysis; a
counter never falls). A group has as many steps as last twice the resolution: a single step, or phase, that is shorter
than that has no energy of its own that anybody could know.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Series, Stage, Trial
from torchstone.core.stats.readings import energy_tick_s, increase, integral

_LEAST = 2.0  # times the resolution
_COUNTERS = ("device_energy_j", "package_energy_j")
_POWER = "device_power_w"


def energy_rows(run: Run) -> list[dict[str, Scalar]]:
    """Return a row a group of steps of every throughput window, where energy or power was read."""
    return [{"run_id": run.head.run_id, **row} for trial in run.trials for row in _of_trial(trial)]


def bounds(series: Series, begin_s: float, end_s: float) -> tuple[float | None, float | None]:
    """Return the least and the most that a counter rose in a span; None where no reading lies beyond that end."""
    at_s, values = series.at_s, series.values
    first, last = bisect_left(at_s, begin_s), bisect_right(at_s, end_s) - 1  # the readings just inside
    low = max(0.0, values[last] - values[first]) if first <= last else 0.0
    before, after = bisect_right(at_s, begin_s) - 1, bisect_left(at_s, end_s)  # and just around
    high = values[after] - values[before] if before >= 0 and after < len(values) else None
    return low, high


def _of_trial(trial: Trial) -> Iterator[dict[str, Scalar]]:
    known = {series.metric: series for series in trial.series if series.rank == 0}
    series = next((known[name] for name in (*_COUNTERS, _POWER) if name in known), None)
    if series is None or len(series.at_s) < 2:
        return
    gap_s = median(after - before for before, after in pairwise(series.at_s))
    tick_s = energy_tick_s(trial) if series.metric in _COUNTERS else None
    resolution_s = max(gap_s, tick_s or 0.0)
    for window, begin_s, end_s, steps in _windows(trial):
        for first, last, start_s, stop_s in _grouped(steps, begin_s, end_s, _LEAST * resolution_s):
            yield {
                "trial_id": trial.trial_id, "case_id": trial.case_id, "window": window, "first_step": first,
                "last_step": last, "begin_s": start_s, "end_s": stop_s, **_energy(series, start_s, stop_s),
                "source": f"{series.source}: {series.metric}", "resolution_s": resolution_s,
            }  # fmt: skip


def _energy(series: Series, begin_s: float, end_s: float) -> dict[str, Scalar]:
    if series.metric == _POWER:  # between two readings power may have been anything: no bounds
        value = integral(series.at_s, series.values, begin_s, end_s)
        return {"energy_j": value, "energy_low_j": None, "energy_high_j": None}
    low, high = bounds(series, begin_s, end_s)
    return {
        "energy_j": increase(series.at_s, series.values, begin_s, end_s), "energy_low_j": low, "energy_high_j": high,
    }  # fmt: skip


def _windows(trial: Trial) -> Iterator[tuple[str | None, float, float, Sequence[float]]]:
    """Yield name, begin, end and step times of each window whose steps follow one another."""
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.rank == 0 and m.phase is None]
    spans = [m for m in steady if m.metric == "window_span_s" and len(m.values) == 2]
    whole = Counter(span.window for span in spans)  # a loop of the user's own with pauses has a span for each stretch
    for span in (span for span in spans if whole[span.window] == 1):
        steps: Measurement | None = next(
            (m for m in steady if m.metric == "step_time_s" and m.window == span.window), None
        )
        if steps is not None and steps.values and sum(steps.values) > 0.0:
            yield span.window, span.values[0], span.values[1], steps.values


def _grouped(
    steps: Sequence[float], begin_s: float, end_s: float, least_s: float
) -> Iterator[tuple[int, int, float, float]]:
    """Yield first and last step (from 0), begin and end of each group that lasts at least so long.

    Steps are laid end to end over the window. What is left at the end joins no group.
    """
    scale = (end_s - begin_s) / sum(steps)
    first, start_s, now_s = 0, begin_s, begin_s
    for number, step_s in enumerate(steps):
        now_s += scale * step_s
        if now_s - start_s >= least_s:
            yield first, number, start_s, now_s
            first, start_s = number + 1, now_s
