"""Phases that do not sum to the step: something is in none of them, or in two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean, median

from torchstone.core.figures import ANATOMY_STEP, PHASE, raw
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.claim import claims
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.phase import REST
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import ASYNCHRONOUS, again, sound
from torchstone.plugins.protocols import Check

TOLERANCE = 1e-3
ROUNDING_S = 25e-6  # four phases printed in ms with two decimals
_APART = 3.0
_MOST = 0.6  # of a step, outside its phases


class PhasesDiffer:
    """Fires where phases do not sum to their step, and where the dissected step is not the step that was measured."""

    describes = "phases that do not sum to the step time"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for each way in which a Case's phases contradict its step."""
        for case_id, case, trials in sound(run):
            seen = dict.fromkeys(message for trial in trials for message in _contradictions(case, trial))
            for message in list(seen)[:2]:
                advice = again(
                    run, "do not use the phases; report this", "give every part of a step a phase, and the rest one"
                )
                yield Finding("phases_differ", Severity.WARNING, message, advice, case_id)


def _contradictions(case: Case, trial: Trial) -> Iterator[str]:
    cut, whole, claimed = raw(trial, "anatomy_step_time_s"), raw(trial, "step_time_s", False), claims(trial)
    said_s = claimed.get(ANATOMY_STEP, claimed.get("step_time_mean"))
    parts, step_s = _parts(trial, claimed), fmean(cut) if cut else said_s
    if parts and step_s is not None and math.isfinite(step_s):
        yield from _sum(case, parts, step_s)
    if case.placement.device in ASYNCHRONOUS and cut and whole and median(whole) * _APART < min(cut):
        yield (
            f"a step split into phases takes {quantity(min(cut), 's')}, but {quantity(median(whole), 's')} in the "
            "window: the window's steps were not timed to their end"
        )


def _parts(trial: Trial, claimed: Mapping[str, float]) -> dict[str, float]:
    """Return the mean time of each phase, measured or claimed."""
    said = {n.removeprefix(PHASE).removesuffix("_s"): v for n, v in claimed.items() if n.startswith(PHASE)}
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.rank == 0 and m.values]
    return said | {m.phase: fmean(m.values) for m in steady if m.metric == "phase_time_s" and m.phase}


def _sum(case: Case, parts: Mapping[str, float], step_s: float) -> Iterator[str]:
    total_s = math.fsum(parts.values())
    off = total_s - step_s
    training = case.workload.task == Task.TRAIN and {"forward", "backward"} <= parts.keys()
    if training and not {"optimizer", "rest"} & parts.keys() and off > -0.005 * step_s:
        yield f"{' + '.join(parts)} sum to the whole step: the optimizer step is in no phase, nor in the step time"
    if case.placement.device in ASYNCHRONOUS and len(parts) > 1 and parts.get(REST, 0.0) > _MOST * step_s:
        yield f"{percent(parts[REST] / step_s)} of the step is in no phase: phases were timed without synchronisation"
    if abs(off) > max(TOLERANCE * step_s, ROUNDING_S):
        names = " + ".join(parts)
        yield f"{names} sum to {quantity(total_s, 's', 5)}, but the reported step time is {quantity(step_s, 's', 5)}"


PLUGIN: Check = PhasesDiffer()
