"""Carries out a PeaksRequest: says what is measured next, and sends what the device did at best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchstone.core.schema.message import Entered, Event, PeaksMeasured, PeaksRequest
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.peaks.measuring import measure


def measure_peaks(request: PeaksRequest, send: Callable[[Event], None]) -> None:
    """Measure, and send the Peaks."""
    peaks = measure(
        request.placement, request.budget_s, Path(request.folder), lambda stage: send(Entered(stage, system_clock()))
    )
    send(PeaksMeasured(peaks))
