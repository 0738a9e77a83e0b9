"""A call that gives work to a GPU returns before the work is done: the host's clock alone times the launch."""

from __future__ import annotations

import time
from collections.abc import Callable


def wrong(step: Callable[[], object], steps: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that launching a step takes."""
    start_s = clock()
    for _ in range(steps):
        step()
    return (clock() - start_s) / steps


def right(
    step: Callable[[], object],
    synchronize: Callable[[], object],
    steps: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the seconds a step takes. `synchronize` waits for the device: torch.cuda.synchronize."""
    synchronize()  # what was launched before does not count
    start_s = clock()
    for _ in range(steps):
        step()
    synchronize()  # the last step has ended
    return (clock() - start_s) / steps
