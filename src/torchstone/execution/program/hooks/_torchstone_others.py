"""Whether others spoilt so much of a program's window that it goes on.

UntilLeftAlone (execution/timing/stopping.py) says why, and how; the program's own Python may not import torchstone.
"""

import os
import time
from typing import Any

_USUAL_WAIT, _OWN_WAITS, _WAITED_SHARE = 0.02, 1.25, 0.05  # as there, and in core/stats/disturbance.py
_LEFT_ALONE, _LONGEST_MORE_S, _LOOK_S = 0.75, 10.0, 0.1  # as there, and in execution/worker/turns.py


class Others:
    """What others do beside the window that begins now."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._before = contention()
        self._look_s = 0.0

    def spoil(self, now_s: Any) -> bool:
        """Say whether the window goes on, whose time is over."""
        if now_s < self._look_s:
            return True
        program, now = self._program, contention()
        budget_s, elapsed_s = program.plan.get("budget_s", 5.0), now_s - program.window_s
        most_s = min(program.window_s - program.began_s, _LONGEST_MORE_S)
        if self._before is None or now is None or elapsed_s >= budget_s + most_s:
            return False
        waited_s, others_s = now[0] - self._before[0], now[1] - self._before[1]
        if waited_s > _OWN_WAITS * others_s + _WAITED_SHARE * elapsed_s:  # its threads waited for one another
            return False
        usual_s = _USUAL_WAIT * program.torch.get_num_threads() * elapsed_s
        missing_s = _LEFT_ALONE * budget_s - elapsed_s + 2.0 * max(0.0, waited_s - usual_s)
        self._look_s = now_s + max(missing_s, _LOOK_S)
        return bool(missing_s > 0.0)


def contention() -> Any:
    """Return how long our threads have waited for a core, and others used the CPU, in seconds; None: not known."""
    waited_ns = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
                waited_ns += int(file.read().split()[1])
        with open("/proc/stat", "rb") as file:
            user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    except (OSError, ValueError, IndexError):  # no Linux, a thread that has just ended, or it is not counted
        return None
    busy_s = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return waited_ns * 1e-9, busy_s - time.process_time()
