"""Values that cannot be: whatever made them, no figure drawn from them may be believed."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.checks._cases import sound
from torchstone.extend import Check
from torchstone.figures import figures
from torchstone.terms.estimate import Finding, Severity
from torchstone.terms.run import Run
from torchstone.terms.trial import Measurement, Stage, Trial
from torchstone.units import quantity

TOLERANCE = 0.01
_POSITIVE = ("step_time_s", "latency_s", "window_time_s")


class Impossible:
    """Fires on times at or below 0 or not finite, on steps longer than their window, on a p50 above the p99."""

    describes = "values that contradict each other"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error for each contradiction of a Case, from the first trial that has it."""
        for case_id, _, trials in sound(run):
            seen = dict.fromkeys(message for trial in trials for message in _contradictions(trial))
            for message in seen:
                advice = f"do not use these figures; report them with `torchstone show {run.head.run_id} --json`"
                yield Finding("impossible", Severity.ERROR, message, advice, case_id)


def _contradictions(trial: Trial) -> Iterator[str]:
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.phase is None and m.rank == 0]
    for m in steady:
        if m.metric in _POSITIVE and not all(0.0 < v < float("inf") for v in m.values):
            yield f"{m.metric} of the {m.window or 'steady'} window has a value that is no positive time"
    yield from _too_long(steady)
    values = figures(trial).values
    p50, p99 = values.get("latency_per_batch_p50_s"), values.get("latency_per_batch_p99_s")
    if p50 is not None and p99 is not None and p50 > p99:
        yield f"the median latency ({quantity(p50, 's')}) is above the 99th percentile ({quantity(p99, 's')})"


def _too_long(steady: list[Measurement]) -> Iterator[str]:
    whole_s = {m.window: sum(m.values) for m in steady if m.metric == "window_time_s"}
    for m in steady:
        window_s = whole_s.get(m.window)
        if m.metric in ("step_time_s", "latency_s") and window_s is not None:
            total_s = sum(m.values)
            if total_s > (1.0 + TOLERANCE) * window_s:
                yield (
                    f"the steps of the {m.window or 'steady'} window add up to {quantity(total_s, 's')}, "
                    f"and the window took {quantity(window_s, 's')}"
                )


PLUGIN: Check = Impossible()
