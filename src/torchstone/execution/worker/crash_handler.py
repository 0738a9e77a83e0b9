"""Crash handling of a trial: its end is noticed at once, with the place in the code, and its children end with it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from pathlib import Path

from torchstone.core.schema.message import ASK_WHERE


def prepare(descriptor: int) -> None:
    """Get the process of a trial ready for any end. `descriptor`: its end of the pipe.

    A fatal signal (segfault, abort, …), and ASK_WHERE while it hangs, has the interpreter write its stack into the pipe
    (`faulthandler`): the controller tells these lines from events, and finds the user's own among them.
    """
    os.set_inheritable(descriptor, False)
    # A loader's processes are forked from this one. If they kept the pipe open, the controller would learn of this
    # one's death only when torch's watchdog ends them, 5 s later. What their interpreters write goes to stderr.
    os.register_at_fork(after_in_child=lambda: os.dup2(2, descriptor, inheritable=False))
    faulthandler.enable(descriptor)
    faulthandler.register(signal.Signals[ASK_WHERE], descriptor, all_threads=False)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox without /proc: then the kernel chooses by size alone
            # When the host's memory ends, the kernel shall take the trial, which is data, and not its controller.
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
