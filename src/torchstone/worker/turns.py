"""A trial that takes turns with another process: it computes when it is told to, and waits meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from torchstone.extend import Batches, Engine, Prepared, Windowed
from torchstone.extend_machine import Device
from torchstone.instrument.clock import system_clock
from torchstone.instrument.loop import Instrument, Window
from torchstone.instrument.stopping import FixedCount
from torchstone.instrument.stopwatch import LatencyStopwatch
from torchstone.terms.message import Entered, Finish, Ready, TakeTurn, TrialRequest, TurnTaken, Word
from torchstone.worker.pipe import EventPipe
from torchstone.worker.tally import Tally
from torchstone.worker.window import turn_of, warm_up_plan


def take_turns(
    request: TrialRequest,
    line: EventPipe,
    engine: Engine,
    prepared: Prepared,
    batches: Batches,
    device: Device,
    tally: Tally,
) -> None:
    """Warm up, say so, take the turns that are asked for, and send what was measured when there are no more."""
    case, send = request.case, line.send
    send(Entered("warm-up", system_clock()))
    instrument = Instrument(prepared.step, batches.next, device.synchronize, system_clock)
    plan = warm_up_plan(request.procedure, batches.queue, rehearse=False)
    first_s, warm_s = instrument.warm_up(plan)
    tally.setup("first_step_time_s", first_s)
    tally.warmed_up(warm_s, settled=plan.settled)
    stage = engine.windows(case.configuration)[-1]
    if isinstance(prepared, Windowed):
        prepared.enter(stage)
    recent = sorted(warm_s[-9:] or (first_s,))
    send(Ready(recent[len(recent) // 2], batches.queue, turn_of(batches, case)))
    taken: list[Window] = []
    while isinstance(word := _heard(line), TakeTurn):
        if word.cores:
            _stay_on(word.cores)
        if word.lead_in:
            instrument.window(device.stopwatch(), FixedCount(word.lead_in))
        closed = stage == "latency"
        watch = LatencyStopwatch(device.synchronize, system_clock) if closed else device.stopwatch()
        begin_cpu_s = time.process_time()
        window = instrument.window(watch, FixedCount(word.steps))
        send(TurnTaken(window.begin_s, window.total_s, time.process_time() - begin_cpu_s))
        taken.append(window)
    tally.turns(stage, taken)
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    tally.peak_memory()
    for metric, values in prepared.results().items():
        tally.steady(metric, values)
    tally.left_out(batches.unreadable)
    send(tally.measured())


def _stay_on(cores: tuple[int, ...]) -> None:
    """Bind every thread of this process to these logical cores, those of torch's pool too."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def _heard(line: EventPipe) -> Word:
    """Return the next word of the controller. One that is gone has none left to say."""
    data = line.receive()
    return msgspec.json.decode(data, type=Word) if data else Finish()
