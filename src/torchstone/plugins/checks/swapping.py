"""Memory paged in from disk while steps were timed."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.integrate import increase
from torchstone.core.stats.readings import spans_s
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.checks._ladder import ladder
from torchstone.plugins.protocols import Check

_FAULTS, _A_STEP = 20, 0.1  # a library's page that is first touched in the window is no thrashing
_SWAPPED_BYTES = 64 << 20


class Swapping:
    """Fires on major page faults (each waits for the disk) in more than a tenth of the steps, and on swapped pages."""

    describes = "memory paged in from disk during the steady windows"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the worst of its trials."""
        for case_id, case, trials in sound(run):
            faults = max((_faults(t) for t in trials), default=0)
            swapped = max((_swapped(t) for t in trials), default=0.0)
            seen = [f"{faults} major page faults"] if faults else []
            seen += [f"the host swapped {quantity(swapped, 'bytes')}"] if swapped else []
            if seen:
                message = f"{' and '.join(seen)} during the steady windows"
                advice = f"stop other programs that use memory, or {ladder(case, run)}"
                yield Finding("swapping", Severity.WARNING, message, advice, case_id)


def _faults(trial: Trial) -> int:
    faults = sum(raw(trial, "major_faults"))
    steps = len(raw(trial, "step_time_s")) + len(raw(trial, "latency_s"))
    return int(faults) if faults > max(_FAULTS, _A_STEP * steps) else 0


def _swapped(trial: Trial) -> float:
    spans = spans_s(trial)
    moved = [
        sum(increase(s.at_s, s.values, begin, end) or 0.0 for begin, end in spans)
        for s in trial.series if s.metric == "host_swapped_bytes"
    ]  # fmt: skip
    return most if (most := max(moved, default=0.0)) > _SWAPPED_BYTES else 0.0


PLUGIN: Check = Swapping()
