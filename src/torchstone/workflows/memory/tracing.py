"""Has a process of its own follow a step, and hears what its peak memory is. The controller never imports torch."""

from __future__ import annotations

import select

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.message import Ended, MemoryRequest, MemoryTold
from torchstone.core.schema.trial import Status
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.machine_protocols import Launcher

_MOST_S = 600.0  # to follow all the steps of one request: seconds each, minutes for a model of a thousand layers


def told(launcher: Launcher, request: MemoryRequest, most_s: float = _MOST_S) -> MemoryTold | str:
    """Return the peaks, or why they are unknown.

    Raises UsageError where the user's own model or data is at fault, TorchstoneError where the process dies or hangs.
    """
    live = launcher.start(request)
    ended: Ended | None = None
    found: MemoryTold | None = None
    ends_s = system_clock() + most_s
    try:
        while select.select([live], [], [], max(0.0, ends_s - system_clock()))[0]:
            events = live.events()
            if events is None:
                break
            for event in events:
                found = event if isinstance(event, MemoryTold) else found
                ended = event if isinstance(event, Ended) else ended
        else:
            raise TorchstoneError(f"{request.case.workload.model}: tracing its step took more than {most_s:g} s")
    finally:
        live.kill()
        ending = live.ending()
    if found is not None:
        return found
    if ended is None:
        raise TorchstoneError(f"{request.case.workload.model}: the tracing process ended: {ending}")
    if ended.mistake is not None:
        raise UsageError(ended.mistake)
    if ended.outcome.status == Status.CRASHED:  # not a step without data, but what builds the model
        lines = (ended.outcome.traceback or "").splitlines()[:-1]
        raise UsageError("\n".join((f"{request.case.workload.model} raised {ended.outcome.message}", *lines)))
    if ended.outcome.status == Status.OUT_OF_MEMORY:
        return f"this host has too little memory to build the model ({ended.outcome.message})"
    return ended.outcome.message or str(ended.outcome.status)
