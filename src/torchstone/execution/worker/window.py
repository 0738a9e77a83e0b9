"""What the Procedure says of a trial: its warm-up, how many steps, and its windows' stopwatch and stopping rule."""

from __future__ import annotations

import math

from torchstone.core.schema.case import Case
from torchstone.core.schema.procedure import Procedure
from torchstone.core.stats.quantile import needed
from torchstone.execution.timing.clock import LatencyStopwatch, system_clock
from torchstone.execution.timing.loop import Instrument, Window
from torchstone.execution.timing.stopping import FixedCount, StoppingRule, UntilQuiet, WarmUp, least_s_on
from torchstone.execution.worker.collector import Collector
from torchstone.execution.worker.ranks.group import ALONE, Alone
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches


def warm_up_plan(procedure: Procedure, queue: int, device: str) -> WarmUp:
    """Return how to warm up on a kind of device."""
    return WarmUp(procedure.warmup, procedure.warmup_budget_s, queue, least_s_on(device))


def turn_of(batches: Batches, case: Case) -> int:
    """Return the steps in which every process of the loader delivers equally often."""
    pulls = int(case.configuration.get("grad_accumulation") or 1)
    return batches.turn // math.gcd(batches.turn, pulls)


def measure_window(
    name: str,
    instrument: Instrument,
    device: Device,
    procedure: Procedure,
    steps: int | None,
    turn: int,
    tally: Collector,
    step_s: float,
    ranks: Alone = ALONE,
) -> Window:
    """Measure the window of that name ("latency" in a closed loop, any other back to back), tally and return it.

    `step_s`: what a step takes, as the warm-up told.
    """
    latency = name == "latency"
    watch = LatencyStopwatch(device.synchronize, system_clock) if latency else device.stopwatch()
    tally.facts.stopwatch[name] = watch.reads
    rule = _rule(procedure, steps, turn, step_s, latency=latency)
    if steps is None:
        rule = ranks.rule(rule, procedure.budget_s, step_s, turn)
    window = instrument.window(watch, rule)
    tally.window(name, window)
    return window


def _rule(procedure: Procedure, steps: int | None, turn: int, step_s: float, *, latency: bool) -> StoppingRule:
    if steps is not None:
        return FixedCount(steps)
    # A latency window that may go on goes on until its p95 is supported.
    enough = needed(0.95) if latency else 0
    least = enough if enough * step_s <= procedure.percentiles_s else 0
    return UntilQuiet(procedure.target, procedure.budget_s, max(procedure.min_steps, least), enough, turn)
