"""The life of a process, bound to that of the process that forked it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys


def end_with(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent ends, or end it now where that has ended already.

    `parent`: the pid of the process that forked this one, which that asked for before the fork: whoever is killed
    between the fork and this call is seen by it alone. Linux only (prctl(2), PR_SET_PDEATHSIG); nothing elsewhere.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
