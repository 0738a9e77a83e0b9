"""The length of a trial's windows, given the cost of its start.

A trial pays for its process, the model and the warm-up before it measures anything. Its value differs from that of
other trials by what differs between processes, which no longer window lowers, and by the noise of its own steps, which
one does. The best length is the root of the ratio of costs times the ratio of variances (Kalibera & Jones, Rigorous
benchmarking in reasonable time, ISMM 2013, §5), as for the turns of `ab` (workflows/ab/allocation.py).

On a device whose energy counter moves seldom they are twenty of its ticks, or it tells nothing: energy is what many
measure on a GPU for, and a trial there takes seconds before its first window, so that two more are cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import msgspec

from torchstone.core.figures import closed_loop_only, raw
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.correlated import relative_error
from torchstone.core.stats.readings import FEWEST_TICKS, USUAL_TICK_S

UNKNOWN_S = 0.5  # while nothing is known of a case
_SHORTEST_S, _LONGEST_S = 0.3, 2.5
_FEWEST = 3
_LEAST_SHARE = 0.02  # of the variance within: so much is between processes, whatever three of them show
_LEAST_FOR_ENERGY_S = 1.1 * FEWEST_TICKS * USUAL_TICK_S


class Cost(msgspec.Struct, frozen=True):
    """What a trial took besides its windows, their whole length, and how many of them there were."""

    start_s: float
    windows_s: float
    windows: int


def cost_of(trial: Trial) -> Cost | None:
    """Return what a trial cost; None where it measured no window."""
    windows = [m.values[0] for m in trial.measurements if m.metric == "window_time_s" and m.values]
    if not windows:
        return None
    return Cost(max(0.0, trial.duration_s - math.fsum(windows)), math.fsum(windows), len(windows))


def window_s(trials: Sequence[Trial], most_s: float) -> float:
    """Return the length of a window for the next trial of a case, from those that ended well; at most `most_s`."""
    known = [(cost, error, trial) for trial in trials if (cost := cost_of(trial)) and (error := _error(trial))]
    if len(known) < _FEWEST:
        return min(UNKNOWN_S, most_s)
    within = fmean(error**2 * cost.windows_s / cost.windows for cost, error, _ in known)  # of a window of one second
    logs = [math.log(_pace(trial)) for *_, trial in known]
    explained = fmean(error**2 for _, error, _ in known)
    between = max(variance(logs) - explained, _LEAST_SHARE * within)
    start_s = fmean(cost.start_s / cost.windows for cost, *_ in known)
    best = math.sqrt(start_s * within / between) if between > 0.0 else _SHORTEST_S
    return min(max(best, _SHORTEST_S), _LONGEST_S, most_s)


def usual_step_s(trials: Sequence[Trial]) -> float:
    """Return what a step takes, over the trials of a case; 0 where none tells."""
    return fmean([_pace(trial) for trial in trials if _steps(trial)] or [0.0])


def _steps(trial: Trial) -> tuple[float, ...]:
    return raw(trial, "latency_s", True) if closed_loop_only(trial) else raw(trial, "step_time_s", False)


def _error(trial: Trial) -> float | None:
    return relative_error(_steps(trial))


def _pace(trial: Trial) -> float:
    return fmean(_steps(trial))


def least_window_s(case: Case) -> float:
    """Return the least length of each window of a Case in seconds: for its energy, both together. 0: any will do.

    Of a load, all it may have: its high percentiles are what it is for.
    """
    if case.workload.task == Task.LOADGEN:
        return math.inf
    if case.placement.device != "cuda":  # others have no counter, or one that moves every millisecond
        return 0.0
    return _LEAST_FOR_ENERGY_S / (2.0 if case.configuration.get("mode") == "both" else 1.0)


def for_objective(procedure: Procedure, objective: str, placement: Placement) -> Procedure:
    """Return the Procedure of a search for that objective: for energy its windows are long enough, and end by time."""
    if objective != "energy" or placement.device != "cuda":
        return procedure
    return msgspec.structs.replace(procedure, target=None, budget_s=max(procedure.budget_s, _LEAST_FOR_ENERGY_S))
