"""Impossible values: negative times, steps longer than their window, counters that decrease."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.quantity import Unit
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Stage, Trial
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import again, sound
from torchstone.plugins.protocols import Check

TOLERANCE = 0.01
_POSITIVE = ("step_time_s", "latency_s", "window_time_s")
_NEVER_NEGATIVE = (Unit.SECOND, Unit.ITEM_RATE, Unit.TOKEN_RATE, Unit.BYTE, Unit.JOULE, Unit.WATT)
_COUNTERS = ("device_energy_j", "package_energy_j")


class Impossible:
    """Fires on times that are no positive numbers, on steps longer than their window, on clocks that run backwards."""

    describes = "negative times, steps longer than their window, or counters that decrease"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error for each contradiction of a Case, from the first trial that has it."""
        for case_id, _, trials in sound(run):
            seen = dict.fromkeys(message for trial in trials for message in _contradictions(trial))
            for message in seen:
                here = f"do not use these figures; report them with `torchstone show {run.head.run_id} --json`"
                advice = again(run, here, "do not use these figures; report them to the tool that wrote them")
                yield Finding("impossible", Severity.ERROR, message, advice, case_id)


def _contradictions(trial: Trial) -> Iterator[str]:
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.phase is None and m.rank == 0]
    for m in steady:
        if m.metric in _POSITIVE and not all(0.0 < v < float("inf") for v in m.values):
            yield f"{m.metric} of the {m.window or 'steady'} window has a value that is not a positive time"
        if m.metric == "window_span_s" and len(m.values) == 2 and m.values[1] <= m.values[0]:
            yield f"the {m.window or 'steady'} window ended before it began"
    yield from _too_long(steady)
    for series in trial.series:
        if any(later < sooner for sooner, later in pairwise(series.at_s)):
            yield f"the timestamps of {series.metric} decrease"
        if series.metric in _COUNTERS and any(later < sooner for sooner, later in pairwise(series.values)):
            yield f"{series.metric} is a counter, but its readings decrease"
    for name, value in claims(trial).items():
        if name in FIGURES and FIGURES[name].unit in _NEVER_NEGATIVE and not 0.0 <= value < float("inf"):
            yield f"{name} is recorded as {value:g}"


def _too_long(steady: list[Measurement]) -> Iterator[str]:
    whole_s = {m.window: sum(m.values) for m in steady if m.metric == "window_time_s"}
    for m in steady:
        window_s = whole_s.get(m.window)
        if m.metric in ("step_time_s", "latency_s") and window_s is not None:
            total_s = sum(m.values)
            if total_s > (1.0 + TOLERANCE) * window_s:
                yield (
                    f"the steps of the {m.window or 'steady'} window sum to {quantity(total_s, 's')}, "
                    f"but the window took {quantity(window_s, 's')}"
                )


PLUGIN: Check = Impossible()
