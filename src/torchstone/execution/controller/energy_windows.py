"""The length of windows on a device whose energy counter updates rarely: at least twenty updates.

Energy is what many measure on a GPU for, and a trial there takes seconds before its first window: two more are cheap.
"""

from __future__ import annotations

import msgspec

from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.procedure import Procedure
from torchstone.core.stats.readings import FEWEST_TICKS, USUAL_TICK_S

_LEAST_S = 1.1 * FEWEST_TICKS * USUAL_TICK_S


def least_window_s(case: Case) -> float:
    """Return the least length of each window of a Case, in seconds: together they are long enough. 0: any will do."""
    if case.placement.device != "cuda":  # others have no counter, or one that moves every millisecond
        return 0.0
    return _LEAST_S / (2.0 if case.configuration.get("mode") == "both" else 1.0)


def for_objective(procedure: Procedure, objective: str, placement: Placement) -> Procedure:
    """Return the Procedure of a search for that objective: for energy its windows are long enough, and end by time."""
    if objective != "energy" or placement.device != "cuda":
        return procedure
    return msgspec.structs.replace(procedure, target=None, budget_s=max(procedure.budget_s, _LEAST_S))
