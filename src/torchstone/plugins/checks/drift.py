"""Step times that rise or fall over the steady window, the same way in every trial, or from trial to trial."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean, median

from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.noise import relative_half_width
from torchstone.core.stats.steady import drift
from torchstone.core.stats.trend import rising, sen_slope
from torchstone.core.units import percent
from torchstone.plugins.checks._cases import longer, option, sound, windows
from torchstone.plugins.protocols import Check

TOLERANCE = 0.05
_BETWEEN_TRIALS = 0.1  # trials of a quiet machine differ by up to 5 % without a trend
_FEWEST_TRIALS = 6  # of fewer, not even a strict order is seldom enough: 5 have it by chance once in 60
_BETWEEN_ADVICE = "the machine had not settled (clocks, temperature, other work on the host): measure again"
_STRICT = 2.576  # standard deviations: by chance in one case of 100


class Drift:
    """Fires where steps become slower or faster: within the windows, or from trial to trial.

    Within: where the median drift of a window is above 5 %, above what noise makes, and of one sign in all trials. From
    trial to trial: where the mean steps of at least 6 rise or fall (Mann & Kendall, at 99 %) by more than 10 % in all
    (Sen's slope). Two sides measured in turn drift together, and are not looked at.
    """

    describes = "step times that drift over the steady window, or from trial to trial"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for each window of a Case that drifts."""
        for case_id, _, trials in sound(run):
            for name, change in _drifting(trials):
                how = "slower" if change > 0 else "faster"
                message = f"steps of the {name} window became {percent(abs(change))} {how}"
                yield Finding("drift", Severity.WARNING, message, _advice(run, change), case_id)
            trend = None if run.head.ab is not None else _between(trials)
            if trend is not None:
                how = "slower" if trend > 0 else "faster"
                message = f"from the first trial to the last, steps became {percent(abs(trend))} {how}"
                yield Finding("drift", Severity.WARNING, message, _BETWEEN_ADVICE, case_id)


def _between(trials: tuple[Trial, ...]) -> float | None:
    """Return the relative change of the mean step over the trials, in the order they were taken; None without one."""
    means = [fmean(times) for trial in trials for name, times in windows(trial) if name != "latency" and times]
    if len(means) < _FEWEST_TRIALS or len(means) != len(trials) or abs(rising(means)) <= _STRICT:
        return None
    slope = sen_slope(range(len(means)), means) or 0.0
    change = slope * (len(means) - 1) / (median(means) - slope * (len(means) - 1) / 2.0)  # of the fitted line's start
    return change if abs(change) > _BETWEEN_TRIALS else None


def _drifting(trials: tuple[Trial, ...]) -> Iterator[tuple[str, float]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for trial in trials:
        for name, times in windows(trial):
            change = drift(times)
            if change is not None:
                found.setdefault(name, []).append((change, _by_chance(times, change)))
    for name, pairs in found.items():
        changes = [change for change, _ in pairs]
        same_way = all(c > 0 for c in changes) or all(c < 0 for c in changes)
        limit = max(TOLERANCE, median(chance for _, chance in pairs))
        if same_way and median(map(abs, changes)) > limit:
            yield name, median(changes)


def _by_chance(times: tuple[float, ...], change: float) -> float:
    """Return the relative change that noise alone makes of as many steps, in 99 windows of 100."""
    # A straight line fitted to n steps of pure noise changes, end to end, by √12 times the error of their mean.
    # Without this, 13 % of noise that resembles its neighbours drifts by 10 % in windows that have no drift.
    rise, last = change * median(times), len(times) - 1
    level = [time - rise * (i / last - 0.5) for i, time in enumerate(times)]  # the drift itself is no noise
    return math.sqrt(12.0) * (relative_half_width(level, 0.99) or 0.0)


def _advice(run: Run, change: float) -> str:
    if is_imported(run):
        return "use a longer warm-up" if change < 0 else "check temperature, clocks and other processes there"
    procedure = run.head.procedure
    if change < 0:
        if procedure.fit is not None:  # a training has no warm-up that could be longer
            return "a cache that fills or kernels being tuned: use the later epochs"
        more = option(procedure, "warmup", 2 * procedure.warmup if procedure.warmup else 50)
        return f"still warming up: measure again with {more}"
    causes = "thermal throttling, memory growth, other processes"
    return f"possible causes: {causes}; measure again with {longer(procedure)}"


PLUGIN: Check = Drift()
