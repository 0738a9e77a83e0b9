"""A trial that takes turns with another process: it computes when it is told to, and waits meanwhile."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess

import msgspec

from torchstone.extend import Batches, Engine, Prepared, Windowed
from torchstone.extend_machine import Device
from torchstone.instrument.clock import system_clock
from torchstone.instrument.loop import Instrument, Window
from torchstone.instrument.stopping import FixedCount
from torchstone.instrument.stopwatch import LatencyStopwatch
from torchstone.terms.message import Entered, Finish, Ready, TakeTurn, TrialRequest, TurnTaken, Word
from torchstone.worker.pinning import Pinning, Seats
from torchstone.worker.pipe import EventPipe
from torchstone.worker.tally import Tally
from torchstone.worker.window import turn_of, warm_up_plan


class Helpers:
    """The processes that load beside this one. Stopped while it waits for its turn, they disturb nobody.

    Running on, they would fill their queue in the other side's turn, take its cores, and make this side's next steps
    look free. Stopped, they go on where they were, and what lies ready is what lay ready.
    """

    def __init__(self, queue: int, free: Callable[[Iterable[int]], None] = lambda _: None) -> None:
        """`queue`: batches that may lie ready; 0: nobody loads, and whatever else runs beside is left alone.

        `free`: gives new ones every core.
        """
        self._queue, self._free = queue, free
        self._stopped: list[BaseProcess] = []
        self._known: set[int] = set()

    def stop(self) -> bool:
        """Stop those there are now; return whether there are any."""
        self._stopped = multiprocessing.active_children() if self._queue else []
        new = {process.pid for process in self._stopped if process.pid is not None} - self._known
        self._free(new)
        self._known |= new
        self._send(signal.SIGSTOP)
        return bool(self._stopped)

    def go_on(self) -> None:
        """Let those that were stopped go on: before a turn, and before they are asked to end."""
        self._send(signal.SIGCONT)
        self._stopped = []

    def _send(self, what: signal.Signals) -> None:
        for process in self._stopped:
            if process.pid is not None and process.is_alive():
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile: the loader will say so
                    os.kill(process.pid, what)


def take_turns(
    request: TrialRequest,
    line: EventPipe,
    engine: Engine,
    prepared: Prepared,
    batches: Batches,
    device: Device,
    tally: Tally,
    pinning: Pinning,
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
    helpers = Helpers(batches.queue, pinning.free)
    try:
        queue = 1 if helpers.stop() else batches.queue  # in that step their going on is seen to
        send(Ready(recent[len(recent) // 2], queue, turn_of(batches, case)))
        seats = Seats(bound=pinning.bound)
        taken = _turns(line, instrument, device, helpers, seats, closed=stage == "latency")
    finally:
        helpers.go_on()
    tally.turns(stage, taken)
    for metric, value in device.memory().items():
        tally.steady(metric, [value])
    tally.peak_memory()
    for metric, values in prepared.results().items():
        tally.steady(metric, values)
    tally.left_out(batches.unreadable)
    send(tally.measured())


def _turns(
    line: EventPipe, instrument: Instrument, device: Device, helpers: Helpers, seats: Seats, *, closed: bool
) -> list[Window]:
    """Take the turns that are asked for; helpers are stopped before each is answered, as the other side goes next."""
    taken: list[Window] = []
    while isinstance(word := _heard(line), TakeTurn):
        if word.cores:
            seats.move(word.cores)
        helpers.go_on()
        if word.lead_in:
            instrument.window(device.stopwatch(), FixedCount(word.lead_in))
        watch = LatencyStopwatch(device.synchronize, system_clock) if closed else device.stopwatch()
        begin_cpu_s = time.process_time()
        window = instrument.window(watch, FixedCount(word.steps))
        cpu_s = time.process_time() - begin_cpu_s
        helpers.stop()
        line.send(TurnTaken(window.begin_s, window.total_s, cpu_s))
        taken.append(window)
    return taken


def _heard(line: EventPipe) -> Word:
    """Return the next word of the controller. One that is gone has none left to say."""
    data = line.receive()
    return msgspec.json.decode(data, type=Word) if data else Finish()
