"""One steady window of a trial: its stopwatch and its stopping rule from the Procedure."""

from __future__ import annotations

from torchstone.extend import Device
from torchstone.instrument.clock import system_clock
from torchstone.instrument.loop import Instrument
from torchstone.instrument.stopping import FixedCount, StoppingRule, UntilQuiet
from torchstone.instrument.stopwatch import LatencyStopwatch
from torchstone.stats.quantile import needed
from torchstone.terms.procedure import Procedure
from torchstone.worker.tally import Tally


def measure_window(name: str, instrument: Instrument, device: Device, procedure: Procedure, tally: Tally) -> None:
    """Measure the window of that name: "latency" in a closed loop, any other back to back."""
    latency = name == "latency"
    watch = LatencyStopwatch(device.synchronize, system_clock) if latency else device.stopwatch()
    tally.facts[f"{name}_stopwatch"] = (
        "host clock, synchronised at each lap" if latency else getattr(watch, "reads", None)
    )
    tally.window(name, instrument.window(watch, _rule(procedure, latency=latency)))


def _rule(procedure: Procedure, *, latency: bool) -> StoppingRule:
    if procedure.iterations is not None:
        return FixedCount(procedure.iterations)
    # A latency window that may go on goes on until its p95 is supported.
    enough = needed(0.95) if latency else 0
    return UntilQuiet(procedure.target, procedure.budget_s, procedure.min_steps, enough)
