"""Has a process of its own measure a device's Peaks, and keeps them. The controller never imports torch."""

from __future__ import annotations

import select
from pathlib import Path

from torchstone.core.errors import MissingError, TorchstoneError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import Ended, PeaksMeasured, PeaksRequest
from torchstone.core.schema.peaks import Peaks
from torchstone.core.schema.trial import Status
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.machine_protocols import Launcher
from torchstone.storage import stored_peaks as cache

BUDGET_S = 22.0  # of measuring; starting processes takes a few seconds more, on accelerators what products keep up 12
_MOST_S = 10.0  # times the budget: then it hangs


def measured(launcher: Launcher, placement: Placement, folder: Path, watcher: Watcher, budget_s: float) -> Peaks:
    """Return the Peaks of a device as they are now, and keep them. `folder`: where the disk is read.

    Raises MissingError where the device cannot be opened, TorchstoneError where the process fails or hangs.
    """
    live = launcher.start(PeaksRequest(placement, budget_s, str(folder)))
    found: Peaks | None = None
    wrong: str | None = None
    ends_s = system_clock() + _MOST_S * budget_s
    try:
        while select.select([live], [], [], max(0.0, ends_s - system_clock()))[0]:
            events = live.events()
            if events is None:
                break
            for event in events:
                watcher.heard(event)
                if isinstance(event, PeaksMeasured):
                    found = event.peaks
                elif isinstance(event, Ended) and event.outcome.status != Status.OK:
                    wrong = event.outcome.message
                    if event.outcome.status == Status.UNSUPPORTED:
                        raise MissingError(f"{placement}: {wrong}")
        else:
            wrong = f"no answer within {_MOST_S * budget_s:.0f} s"
    finally:
        live.kill()
        ending = live.ending()
    if found is None:
        raise TorchstoneError(f"the peaks of {placement} could not be measured: {wrong or ending}")
    cache.keep(found, cache.folder())
    return found
