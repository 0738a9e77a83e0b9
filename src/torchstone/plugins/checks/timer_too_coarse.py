"""Steps so short that the clock's own resolution is a good part of them."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import setting, sound, windows
from torchstone.plugins.protocols import Check

LEAST_TICKS = 100


class TimerTooCoarse:
    """Fires where a window's median step is under 100 times the fact `clock_resolution_s`."""

    describes = "steps too short for the clock that timed them"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming its shortest step and the clock's resolution."""
        for case_id, case, trials in sound(run):
            coarse = [found for trial in trials for found in _coarse(trial)]
            if coarse:
                step_s, tick_s = min(coarse)
                message = f"a step takes {quantity(step_s, 's')}, but the clock resolution is {quantity(tick_s, 's')}"
                yield Finding("timer_too_coarse", Severity.WARNING, message, _advice(case, run), case_id)


def _coarse(trial: Trial) -> Iterator[tuple[float, float]]:
    tick_s = trial.facts.get("clock_resolution_s")
    if not isinstance(tick_s, int | float):
        return
    for _, times in windows(trial):
        if times and median(times) < LEAST_TICKS * tick_s:
            yield median(times), float(tick_s)


def _advice(case: Case, run: Run) -> str:
    size = case.configuration.get("batch_size")
    more = f" ({setting(run, 'batch_size', 16 * size)})" if isinstance(size, int) else ""
    return f"use throughput (timed over the whole window), not step times; or give a step more work{more}"


PLUGIN: Check = TimerTooCoarse()
