"""Warm-up left in the steady values: the first of them stands far above all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from torchstone.core.figures import LATENCY
from torchstone.core.schema.claim import claims, is_imported
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import again, alone, busy, option, sound
from torchstone.plugins.protocols import Check

_FEWEST = 5
_ABOVE = 3.0  # times the typical step, and twice the next slowest
_NEXT = 2.0
_SEVERAL, _MANY = 3, 20


class WarmupLeftIn:
    """Fires where the first step of a window is its slowest by far in most trials, or a mean is above its own p95.

    One trial in which chance made the first step the slowest is no sign: most must agree, and of ours two at least.
    """

    describes = "warm-up steps among the steady ones"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the first step and a typical one."""
        if run.head.procedure.fit is not None:
            return  # every epoch begins anew: with a loader's processes, and after it was judged
        for case_id, _, every in sound(run):
            trials = alone(every)
            seen = [first for trial in trials if (first := _first(trial)) is not None]
            enough = len(seen) > len(trials) / 2 and (len(trials) > 1 or is_imported(run))
            message = seen[0] if enough else next(filter(None, map(_heavy, trials)), None)
            if message is not None:
                warmup = run.head.procedure.warmup
                here = f"measure again with {option(run.head.procedure, 'warmup', 2 * warmup if warmup else 20)}"
                advice = again(run, here, "exclude the first steps in the tool")
                yield Finding("warmup_left_in", Severity.WARNING, message, advice, case_id)


def _first(trial: Trial) -> str | None:
    for name, times in busy(trial):
        if len(times) < _FEWEST:
            continue
        rest = times[1:]
        if times[0] > _ABOVE * median(rest) and times[0] > _NEXT * max(rest):
            first, typical = quantity(times[0], "s"), quantity(median(rest), "s")
            return f"the first step of the {name} window takes {first}, a typical one {typical}"
        if len(times) >= _MANY and (slow := _leading(times)) >= _SEVERAL:
            first, typical = quantity(median(times[:slow]), "s"), quantity(median(times[slow:]), "s")
            return f"the first {slow} steps of the {name} window take {first}, the others {typical}"
    return None


def _leading(times: Sequence[float]) -> int:
    """Return how many steps at the beginning take twice as long as any of the others; 0 unless few do."""
    half = len(times) // 2
    border = _NEXT * max(times[half:])
    slow = next((place for place, t in enumerate(times) if t <= border), len(times))
    return slow if slow <= half and max(times[slow:]) <= border else 0


def _heavy(trial: Trial) -> str | None:
    claimed = claims(trial)
    mean, p95 = claimed.get(f"{LATENCY}_mean_s"), claimed.get(f"{LATENCY}_p95_s")
    if mean is None or p95 is None or not mean > p95 > 0.0:
        return None
    told = f"the mean {LATENCY} ({quantity(mean, 's')}) is above the 95th percentile ({quantity(p95, 's')})"
    return f"{told}: it includes the first steps"


PLUGIN: Check = WarmupLeftIn()
