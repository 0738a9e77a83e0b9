"""When warm-up ends, and when a window: a rule answers with the reason, and never stops without saying why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from torchstone.core.stats.correlated import relative_half_width
from torchstone.core.stats.disturbance import waited_for_others
from torchstone.core.stats.steady import settled

# Of steps on an accelerator: its clock stands at a sixth or so when nothing runs, and rises for some tenths of a second
# once something does, while a few short steps in a row look alike. The length is a guess: it has not run on one.
DEVICE_S = 0.5

_UNDISTURBED = 0.75
_USUAL_WAIT = 0.02  # of the time, that each thread waits for a core on a quiet machine: 0.005 to 0.025
_LOOK_S = 0.1  # between two looks at how long the threads have waited: 5 µs a thread


class StopReason(StrEnum):
    """Why a window ended."""

    FIXED_COUNT = "fixed_count"
    QUIET_ENOUGH = "quiet_enough"
    BUDGET_SPENT = "budget_spent"
    NEVER_QUIET = "never_quiet"
    SOURCE_ENDED = "source_ended"


class StoppingRule(Protocol):
    """Asked after every step, so it must answer in well under a microsecond most of the time.

    `looks`: whether it asks for the times of all steps.
    """

    looks: bool

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> StopReason | None:
        """Return why to stop after `steps` steps and `elapsed_s` seconds, or None to go on."""


class WarmUpRule(Protocol):
    """Asked after every step of the warm-up."""

    def goes_on(self, count: int, newest_s: Sequence[float], elapsed_s: float) -> bool:
        """Return whether another step is needed after `count` of them, the first of the process not among them."""


class FixedCount:
    """Stop after exactly so many steps."""

    looks = False

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> StopReason | None:
        """Return FIXED_COUNT at the count."""
        return StopReason.FIXED_COUNT if steps >= self._steps else None


class UntilQuiet:
    """Stop when the mean step is known to `target` (relative half-width of its 95 % interval), or it is hopeless.

    The noise is looked at after 1/8 of the budget and then at times 15 % apart, so that looking costs little and the
    interval is not read so often that chance alone makes it narrow. When half the budget is spent and the target
    would take more than four budgets (the half-width falls with the root of the steps), more steps will not help:
    only more trials do. The ladder of early returns follows nvbench's stdrel criterion.

    `turn`: the window is a whole number of so many steps, and two turns at least. The processes of a loader finish
    about together, so batches come in bursts; whole turns begin and end at the same place of a burst, where part of
    one makes a slow loader look up to twice as fast, faster than the device itself (docs/measured.md §13).
    """

    def __init__(
        self, target: float | None, budget_s: float, min_steps: int, enough_steps: int = 0, turn: int = 1
    ) -> None:
        self._turn = turn
        self._target = target
        self.looks = target is not None
        self._budget_s = budget_s
        self._min_steps = max(min_steps, 2 * turn) if turn > 1 else min_steps
        self._enough_steps = max(enough_steps, self._min_steps)
        self._next_look_s = budget_s / 8

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> StopReason | None:
        """Return the first reason that holds, or None."""
        if elapsed_s < self._next_look_s or steps < self._min_steps or steps % self._turn:
            return None
        if elapsed_s >= self._budget_s:
            return StopReason.BUDGET_SPENT
        self._next_look_s = min(elapsed_s * 1.15, self._budget_s)
        if self._target is None or steps < self._enough_steps:
            return None
        half_width = relative_half_width(recent(steps))
        if half_width is None:
            return None
        if half_width <= self._target:
            return StopReason.QUIET_ENOUGH
        needed_s = elapsed_s * (half_width / self._target) ** 2
        hopeless = elapsed_s >= self._budget_s / 2 and needed_s > 4 * self._budget_s
        return StopReason.NEVER_QUIET if hopeless else None


class UntilLeftAlone:
    """Let a window in which this process's threads waited for others go on until enough of it is undisturbed.

    A burst of other work spoils a part of a window; without the rest the whole trial would be taken again. It looks at
    evidence alone. While others compute, a thread waits for half of the time or more, so that at most twice what was
    waited is disturbed.

    `waited_s`: how long the threads have waited for a core so far (None: not known). `others_s`: how long others have
    used the CPU; asked where a window would go on, as reading it takes a while on many cores. `threads`: how many
    compute. `more_s`: by how much the window may grow at most: as long as a new trial takes until its windows, for by
    then one costs less. Enough are three quarters of when the rule would stop: an early end stays early.
    """

    def __init__(
        self,
        rule: StoppingRule,
        waited_s: Callable[[], float | None],
        others_s: Callable[[], float | None],
        threads: int,
        more_s: float,
    ) -> None:
        self.looks = rule.looks
        self._rule, self._waited_s, self._others_s = rule, waited_s, others_s
        self._usual, self._more_s = _USUAL_WAIT * threads, more_s
        self._others_before_s, self._waited_before_s = others_s(), waited_s()
        self._next_look_s = self._enough_s = 0.0
        self._ends_s: float | None = None

    def consider(self, steps: int, elapsed_s: float, recent: Callable[[int], Sequence[float]]) -> StopReason | None:
        """Return why the rule would stop, once enough is undisturbed, or the window has grown as far as it may."""
        reason = self._rule.consider(steps, elapsed_s, recent)
        if reason is None or elapsed_s < self._next_look_s:
            return None
        if self._ends_s is None:
            self._ends_s, self._enough_s = elapsed_s + self._more_s, _UNDISTURBED * elapsed_s
        waited_s = _since(self._waited_before_s, self._waited_s())
        missing_s = self._enough_s - elapsed_s + 2.0 * max(0.0, waited_s - self._usual * elapsed_s)
        if missing_s <= 0.0 or elapsed_s >= self._ends_s:
            return reason
        if not waited_for_others(waited_s, _since(self._others_before_s, self._others_s()), elapsed_s):
            return reason
        self._next_look_s = min(elapsed_s + max(missing_s, _LOOK_S), self._ends_s)
        return None


def _since(before_s: float | None, now_s: float | None) -> float:
    return now_s - before_s if now_s is not None and before_s is not None else 0.0


class WarmUp:
    """Decides after every (synchronised) warm-up step whether to go on.

    `least`: steps the user asked for; with it detection still runs but never ends warm-up sooner. Without it, `least`
    is 10, or as many as fit into the budget, but never under 2; and steps are taken for `least_s` at least, as far as
    the budget goes. `queue`: batches a loader keeps ready; a starved loader looks free until they are used up, so at
    least that many are taken.
    """

    def __init__(self, least: int | None, budget_s: float, queue: int = 0, least_s: float = 0.0) -> None:
        self._asked = least
        self._budget_s = budget_s
        self._queue = queue
        self._least_s = least_s
        self.settled = False

    def goes_on(self, count: int, newest_s: Sequence[float], elapsed_s: float) -> bool:
        """Return whether another step is needed after `count` of them, the first of the process not among them."""
        if count < self._queue or (self._asked is not None and count < self._asked):
            return True
        self.settled = self._asked == 0 or settled(newest_s)
        if self._asked is None and count < 2:
            return True
        if elapsed_s >= self._budget_s:
            return False
        return not self.settled or (self._asked is None and (count < 10 or elapsed_s < self._least_s))


def least_s_on(device: str) -> float:
    """Return how long steps are taken at least on a kind of device before they count, in seconds."""
    return 0.0 if device == "cpu" else DEVICE_S
