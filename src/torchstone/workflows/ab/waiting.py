"""A side that waits for its turn is stopped: its threads would spin on into the other side's turn.

A thread of OpenMP that has done its part looks for the next for some milliseconds before it sleeps (libgomp:
GOMP_SPINCOUNT), on the core where the other side's thread is to compute. Stopped, it spins for nobody: measured on two
cores, the error after the same time is 0.6 to 0.75 of what it is otherwise, and steps are not slowed down by the other
side (docs/decisions/0014-a-waiting-side-is-stopped.md). A side has computed everything by then, and nothing is measured
while it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from torchstone.core.schema.case import Case
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.controller.session import isolation


def is_stopped(case: Case, procedure: Procedure) -> bool:
    """Say whether a side that waits is stopped: on the CPU, where the kernel ends what was stopped with its parent.

    A fork asks the kernel for that (execution/worker/template.py), and so do the hooks of a program; a spawned process
    notices by itself that nobody is left, which one that is stopped could not.
    """
    asks = sys.platform == "linux" and isolation(procedure.isolation) in ("fork", "program")
    return asks and case.placement.device == "cpu"


def stop(pid: int) -> None:
    """Stop a trial and all that it started. One that has ended meanwhile is left alone."""
    _send(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Let what was stopped go on."""
    _send(pid, signal.SIGCONT)


def _send(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, what)
