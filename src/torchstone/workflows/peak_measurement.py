"""Has a process of its own measure a device's Peaks, and keeps them. The controller never imports torch."""

from __future__ import annotations

from pathlib import Path

from torchstone.core.errors import MissingError, TorchstoneError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import PeaksMeasured, PeaksRequest
from torchstone.core.schema.peaks import Peaks
from torchstone.core.schema.trial import Status
from torchstone.execution.controller.observer import Watcher, wait_for_answer
from torchstone.plugins.machine_protocols import Launcher
from torchstone.storage import stored_peaks as cache

BUDGET_S = 22.0  # of measuring; starting processes takes a few seconds more, on accelerators what products keep up 12
_MOST_S = 10.0  # times the budget: then it hangs


def current_peaks(launcher: Launcher, placement: Placement, folder: Path, watcher: Watcher, budget_s: float) -> Peaks:
    """Return the Peaks of a device as they are now, and keep them. `folder`: where the disk is read.

    Raises MissingError where the device cannot be opened, TorchstoneError where the process fails or hangs.
    """
    live = launcher.start(PeaksRequest(placement, budget_s, str(folder)))
    answer, ended = wait_for_answer(live, PeaksMeasured, _MOST_S * budget_s, watcher.heard)
    if ended.outcome.status == Status.UNSUPPORTED:
        raise MissingError(f"{placement}: {ended.outcome.message}")
    if answer is None:
        raise TorchstoneError(f"the peaks of {placement} could not be measured: {ended.outcome.message}")
    cache.keep_peaks(answer.peaks, cache.folder())
    return answer.peaks
