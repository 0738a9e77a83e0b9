"""Rules that all ranks follow alike: rank 0 looks at its clock, at steps known to all beforehand, and tells the others.

Between two looks a rank asks nobody: the looks are as far apart as those of the rule itself (execution/timing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torchstone.execution.timing.stopping import Reason, StoppingRule, WarmUp

_APART = 1.15  # as UntilQuiet looks
_FIRST = 8  # a look after an eighth of the budget
_REASONS = tuple(Reason)

Agree = Callable[[float], float]  # gives the value of rank 0


class AgreedWarmUp:
    """A WarmUp after each of whose steps rank 0 decides."""

    def __init__(self, plan: WarmUp, agree: Agree) -> None:
        self._plan, self._agree = plan, agree

    @property
    def settled(self) -> bool:
        """Whether rank 0's steps had settled."""
        return self._plan.settled

    def goes_on(self, count: int, newest_s: Sequence[float], elapsed_s: float) -> bool:
        """Return whether another step is needed, as rank 0 sees it."""
        return bool(self._agree(float(self._plan.goes_on(count, newest_s, elapsed_s))))


class AgreedRule:
    """A StoppingRule of rank 0. `budget_s`: of the window. `step_s`: what a step takes, the same number in all ranks.

    `turn`: steps after which the coming of batches repeats: a window ends at one of them.
    """

    def __init__(self, rule: StoppingRule, agree: Agree, budget_s: float, step_s: float, turn: int = 1) -> None:
        self._rule, self._agree, self._budget_s, self._turn = rule, agree, budget_s, turn
        self.looks = rule.looks
        self._next = self._whole(budget_s / _FIRST / step_s if step_s > 0.0 else 1.0)

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> Reason | None:
        """Return why to stop, in every rank at the same step."""
        if steps < self._next:
            return None
        reason = self._rule.consider(steps, elapsed_s, recent)
        told = int(self._agree(-1.0 if reason is None else float(_REASONS.index(reason))))
        if told >= 0:
            return _REASONS[told]
        left = self._budget_s / elapsed_s if elapsed_s > 0.0 else _APART
        wanted = steps * min(_APART, left) if left > 1.0 else steps + 1.0
        self._next = self._whole(self._agree(max(steps + 1.0, wanted)))
        return None

    def _whole(self, steps: float) -> int:
        return self._turn * max(1, math.ceil(steps / self._turn))
