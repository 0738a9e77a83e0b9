"""How often an energy counter moves: what is counted between two of its ticks is booked on the later one.

NVIDIA's moves every 20 to 100 ms, as the card has it, whatever it is asked (Yang, Adamek & Armour, Part-time power
measurements: nvidia-smi's lack of attention, arXiv 2312.02741): a window of six ticks is known to a sixth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from torchstone.plugins.telemetry._gauges import Reading

_LONGEST_S, _PERIOD_S = 0.6, 0.002
_CHANGES = 5


class Ticking(Reading):
    """A cumulative gauge that can say how often it moves. That takes some tenths of a second.

    `tick_s` must not be called while anything is measured: it reads the counter every two milliseconds.
    """

    __slots__ = ("_clock", "_sleep")

    def __init__(
        self, counter: Reading, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(counter.metric, counter.read, cumulative=True)
        self._clock, self._sleep = clock, sleep

    def tick_s(self) -> float | None:
        """Return the median time between two moves of the counter, in seconds; None where there were too few."""
        moved_s: list[float] = []
        began_s, before = self._clock(), self.read()
        while len(moved_s) < _CHANGES and self._clock() - began_s < _LONGEST_S:
            self._sleep(_PERIOD_S)
            now = self.read()
            if now != before and now is not None:
                moved_s.append(self._clock())
            before = now
        return median(after - earlier for earlier, after in pairwise(moved_s)) if len(moved_s) > 1 else None
