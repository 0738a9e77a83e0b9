"""The end of warm-up: after a minimum number of steps, as soon as the newest steps no longer get faster."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.stats.steady import settled

# Of steps on an accelerator: its clock stands at a sixth or so when nothing runs, and rises for some tenths of a second
# once something does, while a few short steps in a row look alike. The length is a guess: it has not run on one.
DEVICE_S = 0.5


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
