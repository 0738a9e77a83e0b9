"""A trial interleaved with another process: it computes on command, and waits in between."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.process import BaseProcess

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.message import Entered, Finish, Ready, TakeTurn, TurnEnded, TurnsRequest, Word
from torchstone.core.schema.procedure import Procedure
from torchstone.core.stats.quantile import needed
from torchstone.core.stats.steady import settled
from torchstone.execution.timing.clock import Clock, LatencyStopwatch, system_clock
from torchstone.execution.timing.loop import Instrument, MeasuredWindow
from torchstone.execution.timing.segments import Segments
from torchstone.execution.timing.stopping import (
    FixedCount,
    StoppingRule,
    UntilLeftAlone,
    UntilQuiet,
    WarmUp,
    least_s_on,
)
from torchstone.execution.worker.collector import Collector, end_warm_up
from torchstone.execution.worker.pinning import Pinning, Seats
from torchstone.execution.worker.pipe import EventPipe
from torchstone.execution.worker.ranks.group import ALONE, Alone
from torchstone.execution.worker.setup import Setup
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Batches

# The phase breakdown of a step: a separate pass after the windows, whose steps are timed by phase.
#
# A cut is a stamp, or an event on the device's own stream: nothing waits for it. It is a pass of its own all the same,
# so that no headline figure carries even that.

ANATOMY = "anatomy"  # the stage, and the window of its measurements
_SHARE = 0.2  # of a window's budget
_LEAST, _MOST = 3, 50


def measure_anatomy(
    like: str,
    window: MeasuredWindow,
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


def anatomy_steps(window: MeasuredWindow, procedure: Procedure, turn: int = 1) -> int:
    """Return how many steps to cut: those of a fifth of the budget, from 3 to 50, in whole turns of the loader.

    They are counted beforehand: on a device that runs behind, the host's clock would let in more.
    """
    if not window.laps_s:
        return _LEAST
    affordable = int(_SHARE * procedure.budget_s * len(window.laps_s) / window.total_s)
    asked = procedure.iterations if procedure.iterations is not None else _MOST
    return turn * math.ceil(max(_LEAST, min(affordable, asked, _MOST)) / turn)


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
    turn: int,
    tally: Collector,
    step_s: float,
    ranks: Alone = ALONE,
    goes_on: Callable[[StoppingRule], StoppingRule] = lambda rule: rule,
) -> MeasuredWindow:
    """Measure the window of that name ("latency" in a closed loop, any other back to back), tally and return it.

    `step_s`: what a step takes, as the warm-up told. `goes_on`: makes a window that others disturb longer.
    """
    latency = name == "latency"
    watch = LatencyStopwatch(device.synchronize, system_clock) if latency else device.stopwatch()
    tally.facts.stopwatch[name] = watch.reads
    rule = _rule(procedure, turn, step_s, latency=latency)
    if procedure.iterations is None:
        rule = ranks.rule(goes_on(rule), procedure.budget_s, step_s, turn)
    window = instrument.window(watch, rule)
    tally.window(name, window)
    return window


def _rule(procedure: Procedure, turn: int, step_s: float, *, latency: bool) -> StoppingRule:
    if procedure.iterations is not None:
        return FixedCount(procedure.iterations)
    # A latency window that may go on goes on until its p95 is supported.
    enough = needed(0.95) if latency else 0
    least = enough if enough * step_s <= procedure.percentiles_s else 0
    return UntilQuiet(procedure.target, procedure.budget_s, max(procedure.min_steps, least), enough, turn)


_LONGEST_MORE_S = 10.0


def longer_beside_others(
    case: Case, procedure: Procedure, queue: int, spent_s: float
) -> Callable[[StoppingRule], StoppingRule]:
    """Return what lets a window that others disturb go on: of one process on the CPU, which can leave steps out.

    `queue`: batches that processes of a loader keep ready. `spent_s`: what a trial takes until its windows.
    """
    import torch

    threads, cores = torch.get_num_threads(), len(getattr(os, "sched_getaffinity", lambda _: ())(0))
    if procedure.disturbed != "replace" or case.placement.device != "cpu" or queue or threads > cores:
        return lambda rule: rule
    sources = (registry.load("telemetry", name) for name in ("host", "process"))
    read = {gauge.metric: gauge.read for source in sources for gauge in source.open(os.getpid(), None)}
    busy_s = read.get("host_busy_s", lambda: None)
    others_s = lambda: now_s - time.process_time() if (now_s := busy_s()) is not None else None
    waited_s = read.get("core_wait_s", lambda: None)
    return lambda rule: UntilLeftAlone(rule, waited_s, others_s, threads, min(spent_s, _LONGEST_MORE_S))


_LONG_S = 0.4  # a first step
_LEAD_IN_STEPS, _LEAD_IN_S = 2, 0.1  # before a turn on an accelerator, and a step of which one is enough


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


class BeforeTurns(WarmUp):
    """Decides when turns may begin: sooner than a window may, as what is left of warm-up hits both sides alike.

    The first turns are those of a process that is not warm, on both sides, and the middle half of them leaves them out.
    So one further step is enough, more are taken while steps still become faster and the budget lasts, and none where
    a first step takes so long that a second would cost more than it tells. `compiles`: two at least, as the second may
    compile anew. `least_s`: of an accelerator, whose clock rises meanwhile, and whose first step loads its kernels and
    tells nothing of the second. What the user asked for (`least`) and what a loader has ready is done first, as ever.
    """

    def __init__(
        self, least: int | None, budget_s: float, queue: int, *, compiles: bool, clock: Clock, least_s: float = 0.0
    ) -> None:
        """Make it when the first step begins."""
        super().__init__(least, budget_s, queue, least_s)
        self._least = max(least or 0, queue, 2 if compiles else 0)
        self._compiles, self._clock, self._began_s = compiles, clock, clock()
        self._is_long = False

    def goes_on(self, count: int, newest_s: Sequence[float], elapsed_s: float) -> bool:
        """Return whether another step is needed after `count` of them, the first of the process not among them."""
        if count == 0:
            self._is_long = self._clock() - self._began_s >= _LONG_S and not self._compiles
        if count < self._least:
            return True
        self.settled = self._asked == 0 or settled(newest_s)
        if self._asked is None and elapsed_s < self._least_s:
            return True
        return not self.settled and not self._is_long and (count == 0 or elapsed_s < self._budget_s)


def take_turns(request: TurnsRequest, setup: Setup, batches: Batches, line: EventPipe, pinning: Pinning) -> None:
    """Warm up, say so, take the turns that are asked for, and send what was measured when there are no more."""
    case, prepared, device, tally, send = setup.case, setup.prepared, setup.device, setup.tally, line.send
    send(Entered("warm-up", system_clock()))
    instrument = Instrument(prepared.step, batches.next, device.synchronize, system_clock)
    compiles, how = case.configuration.get("compile", "off") not in ("off", None), request.procedure
    kind = case.placement.device
    plan = BeforeTurns(
        how.warmup, how.warmup_budget_s, batches.queue, compiles=compiles, clock=system_clock, least_s=least_s_on(kind)
    )
    first_s, warm_s = instrument.warm_up(plan)
    tally.setup("first_step_time_s", first_s)
    tally.warmed_up(warm_s, settled=plan.settled)
    end_warm_up(device, tally)
    stage = setup.engine.windows(case.configuration)[-1]
    prepared.enter(stage)
    recent = sorted(warm_s[-9:] or (first_s,))
    step_s = recent[len(recent) // 2]
    helpers = Helpers(batches.queue, pinning.free)
    try:
        queue = 1 if helpers.stop() else batches.queue  # in that step their going on is seen to
        send(Ready(step_s, lead_in_steps(queue, step_s, kind), turn_of(batches, case)))
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


def lead_in_steps(queue: int, step_s: float, device: str) -> int:
    """Return the steps before those of a turn: as many as lie ready in a loader, and on an accelerator two, or one.

    It stood idle in the other side's turn, and its queue is empty. Steps of a tenth of a second fill it alone.
    """
    if device == "cpu":
        return queue
    return max(queue, _LEAD_IN_STEPS if step_s < _LEAD_IN_S else 1)


def _turns(
    line: EventPipe, instrument: Instrument, device: Device, helpers: Helpers, seats: Seats, *, closed: bool
) -> list[MeasuredWindow]:
    """Take the turns that are asked for; helpers are stopped before each is answered, as the other side goes next."""
    taken: list[MeasuredWindow] = []
    while isinstance(word := _heard(line), TakeTurn):
        if word.cores:
            seats.move(word.cores)
        helpers.go_on()
        watch = LatencyStopwatch(device.synchronize, system_clock) if closed else device.stopwatch()
        if word.lead_in and not watch.asynchronous:
            instrument.window(device.stopwatch(), FixedCount(word.lead_in))
        begin_cpu_s = time.process_time()
        if watch.asynchronous:
            window = instrument.turn(watch, word.steps, word.lead_in)
        else:
            window = instrument.window(watch, FixedCount(word.steps))
        cpu_s = time.process_time() - begin_cpu_s
        helpers.stop()
        line.send(TurnEnded(window.begin_s, window.total_s, cpu_s))
        taken.append(window)
    return taken


def _heard(line: EventPipe) -> Word:
    """Return the next word of the controller. One that is gone has none left to say."""
    data = line.receive()
    return msgspec.json.decode(data, type=Word) if data else Finish()
