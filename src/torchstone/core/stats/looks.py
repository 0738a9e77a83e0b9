"""Sequential looks at a running comparison, with a bound on false alarms over all looks together."""

from __future__ import annotations

from torchstone.core.stats.student import t_quantile
from torchstone.core.stats.trimmed import Location


class Spending:
    """Gives each look its share of the false alarms allowed: `total` is spent in all, whatever the looks say.

    A look at `progress` (0 to 1 of the budget) may have spent total · progress² by then: little is left to the first
    looks, which only large differences need (Lan & DeMets, Biometrika 70, 1983; the power family: Kim & DeMets,
    Biometrika 74, 1987). What is new since the look before is the level of this one. By Boole's inequality the levels
    add up to the bound however the looks hang together; a boundary computed for independent increments would be
    tighter by a twentieth, and on a machine that drifts the increments are not independent.
    """

    def __init__(self, total: float) -> None:
        """Raises ValueError where total is outside (0, 1)."""
        if not 0.0 < total < 1.0:
            raise ValueError(f"false alarms {total!r} are not between 0 and 1")
        self._total = total
        self._spent = 0.0

    def level(self, progress: float) -> float:
        """Return the false alarms that a look at that progress may spend; 0 if none are left since the last."""
        due = self._total * min(max(progress, 0.0), 1.0) ** 2
        share, self._spent = max(0.0, due - self._spent), max(due, self._spent)
        return share


def half_width(found: Location, false_alarms: float) -> float:
    """Return half the two-sided interval of a location at the level of a look (Student 1908), in its unit."""
    return t_quantile(1.0 - false_alarms / 2.0, found.df) * found.error
