"""The phase breakdown of a step: a separate pass after the windows, whose steps are timed by phase.

A cut is a stamp, or an event on the device's own stream: nothing waits for it. It is a pass of its own all the same,
so that no headline figure carries even that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torchstone.core.schema.procedure import Procedure
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Instrument, Window
from torchstone.execution.timing.segments import Segments
from torchstone.execution.worker.collector import Collector
from torchstone.plugins.machine_protocols import Device

ANATOMY = "anatomy"  # the stage, and the window of its measurements
_SHARE = 0.2  # of a window's budget
_LEAST, _MOST = 3, 50


def measure_anatomy(
    like: str,
    window: Window,
    instrument: Instrument,
    device: Device,
    procedure: Procedure,
    tally: Collector,
    turn: int = 1,
    agreed: Callable[[float], float] = float,
) -> None:
    """Cut some steps like those of the `window` of the name `like`; a source that has ended leaves nothing to cut.

    `agreed`: gives the number that all ranks take, of the one that this process would.
    """
    watch = device.stopwatch()
    segments = Segments(watch, system_clock if watch.asynchronous else None)
    count = int(agreed(anatomy_steps(window, procedure, turn)))
    steps = instrument.dissect(segments, count, closed=like == "latency")
    if not steps.steps_s:
        return
    tally.facts.stopwatch[ANATOMY] = watch.reads
    tally.steady("anatomy_step_time_s", steps.steps_s, ANATOMY)
    for phase, spent_s in steps.phases_s.items():
        tally.steady("phase_time_s", spent_s, ANATOMY, phase)
    for phase, spent_s in (steps.host_s or {}).items():
        tally.steady("host_time_s", spent_s, ANATOMY, phase)


def anatomy_steps(window: Window, procedure: Procedure, turn: int = 1) -> int:
    """Return how many steps to cut: those of a fifth of the budget, from 3 to 50, in whole turns of the loader.

    They are counted beforehand: on a device that runs behind, the host's clock would let in more.
    """
    if not window.laps_s:
        return _LEAST
    affordable = int(_SHARE * procedure.budget_s * len(window.laps_s) / window.total_s)
    asked = procedure.iterations if procedure.iterations is not None else _MOST
    return turn * math.ceil(max(_LEAST, min(affordable, asked, _MOST)) / turn)
