"""One trial from the controller's side: wait on its pipe, sample telemetry, end it at its timeout."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import select
import uuid
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import (
    CaseRequest,
    Ended,
    Entered,
    EvaluateRequest,
    Event,
    Live,
    Measured,
    Progress,
    RehearseRequest,
    SaveRequest,
    Stack,
    TrainRequest,
    TurnsRequest,
    Word,
)
from torchstone.core.schema.ranks import world_size
from torchstone.core.schema.trial import Disturbance, Disturber, Measurement, Outcome, Stage, Status, Trial
from torchstone.core.stats.disturbance import EVIDENCE_PERIOD_S, disturbance
from torchstone.execution.controller.busy_machine import busiest, snapshot
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.outcome import TrialEnd
from torchstone.plugins.machine_protocols import Launcher, LiveTrial

_ANSWER_S = 0.5  # how long a trial that hangs may take to say where
_MOST_EVIDENCE_S = 60.0  # of a window in which other work is looked for often: a longer one has many steps to average
_PAUSE_S = 0.05  # it has said it when it has been silent for so long

_SILENT_S, _SILENT_TIMES = 60.0, 20.0  # ranks that do no step for so long, and so many times their longest, hang

_E = TypeVar("_E", bound=Event)


class TrialDrive:
    """Drives one request that sets a Case up to a Trial. `others`: the devices of its further ranks."""

    def __init__(
        self,
        request: CaseRequest,
        device: DeviceInfo | None,
        watcher: Watcher,
        others: Sequence[DeviceInfo] = (),
    ) -> None:
        self._request = request
        self._device, self._others = device, others
        self._watcher = watcher
        self._measured: Measured | None = None
        self._ended: Ended | None = None
        self._ending = TrialEnd()
        self._live_s: float | None = None
        self._recorder: TelemetrySampler | None = None
        self._next_reading_s = self._next_evidence_s = self._evidence_ends_s = math.inf
        self._limit_s, self._deadline_s = request.procedure.timeout_s, math.inf
        self._over = self._timed_out = self._in_window = False
        placement = request.case.placement
        self._beats = placement.count * placement.nodes > 1  # ranks may wait for one another for ever
        self._beat_s: float | None = None
        self._longest_s, self._hung_s = 0.0, math.inf
        self._silent_s: float | None = None

    @property
    def mistake(self) -> str | None:
        """The line for the user, where the user's own model or data was at fault."""
        return self._ended.mistake if self._ended is not None else None

    @property
    def pid(self) -> int:
        """The process of a trial that was started, which leads the group of all that it starts."""
        return self._live.pid

    @property
    def facts(self) -> Facts:
        """What is known of how the process of a trial that was started came to be."""
        return self._live.facts

    def run(self, launcher: Launcher, order: int) -> Trial:
        """Start the trial, wait for its end, and return what is known of it."""
        self.start(launcher)
        return self.conclude(order)

    def start(self, launcher: Launcher) -> None:
        """Start the trial."""
        self._started_utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        self._before = snapshot() if self._request.procedure.disturbed == "replace" else {}
        self._began_s = system_clock()
        self._deadline_s = self._began_s + self._limit_s
        self._live = launcher.start(self._request)
        if self._request.procedure.telemetry_period_s > 0:
            self._recorder = TelemetrySampler(
                self._live.pid,
                self._device,
                self._began_s,
                system_clock,
                self._others,
                whole=self._request.case.placement.nodes == 1,
            )
            self._next_reading_s = self._began_s

    def say(self, word: Word) -> None:
        """Tell a trial that takes turns what to do next. One that has ended meanwhile does not hear it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            os.write(self._live.fileno(), msgspec.json.encode(word) + b"\n")

    def hear(self, kind: type[_E], limit_s: float | None = None) -> _E | None:
        """Wait until the trial sends an event of that kind, and return it; None where the trial ends without one.

        `limit_s`: most time from now on, within the Procedure's timeout; None: what is left of the time it has.
        """
        self._allow(limit_s)
        while not self._over:
            for event in self._next_events():
                if isinstance(event, kind):
                    return event
        return None

    def conclude(self, order: int, limit_s: float | None = None) -> Trial:
        """Wait for the end of a trial that was started, and return what is known of it. `limit_s`: as in `hear`."""
        self._allow(limit_s)
        try:
            while not self._over:
                self._next_events()
        except BaseException:
            self.abandon()
            raise
        wrong, began_s = self._live.ending(), self._began_s
        trial = Trial(
            trial_id=uuid.uuid4().hex[:12],
            case_id=self._request.case.case_id,
            number=self._request.number,
            order=order,
            started_utc=self._started_utc,
            duration_s=round(system_clock() - began_s, 6),
            outcome=self._outcome(wrong),
            facts=self._facts(),
            measurements=self._measurements(began_s),
            series=self._recorder.series() if self._recorder else (),
        )
        return msgspec.structs.replace(trial, disturbance=self._disturbance(trial))

    def _disturbance(self, trial: Trial) -> Disturbance | None:
        """Return what disturbed the trial, with the names of the programs; None where that is not asked for."""
        if self._request.procedure.disturbed != "replace" or isinstance(self._request, TurnsRequest):
            return None  # the sides of a pair hold each other's turns against what disturbs (workflows/ab)
        case, cores = self._request.case, trial.facts.logical_cores
        threads, workers = trial.facts.threads_in_effect, case.configuration.get("num_workers")
        workers = workers or trial.facts.loader_workers  # of somebody's own program
        alone = case.placement.device == "cpu" and world_size(case.configuration) == 1
        found = disturbance(
            trial,
            cores=cores if isinstance(cores, int) else os.cpu_count(),
            threads=threads if isinstance(threads, int) else None,
            one_process=alone and not workers,
        )
        if found is None or not found.disturbed or Disturber.PROCESSES not in found.causes:
            return found
        named = busiest(self._before, snapshot(), system_clock() - self._began_s)
        return msgspec.structs.replace(found, processes=named)

    def abandon(self) -> None:
        """End a trial that nobody waits for any more."""
        self._live.kill()
        self._live.ending()

    def _allow(self, limit_s: float | None) -> None:
        """Give it so much time from now on: while it waited for its turn, its time ran out for nothing."""
        if limit_s is not None and not self._over:
            self._limit_s = min(limit_s, self._request.procedure.timeout_s)
            self._deadline_s = system_clock() + self._limit_s

    def _next_events(self) -> Sequence[Event]:
        """Wait for events and note them; none where the trial has ended, by itself or for its time."""
        while True:
            now_s = system_clock()
            if now_s >= self._deadline_s or self._is_hung(now_s):
                self._ask_where(self._live)
                self._live.kill()
                self._over = self._timed_out = True
                return ()
            self._read_gauges(now_s)
            wait_s = min(self._deadline_s, self._hung_s, self._next_reading_s, self._next_evidence_s)
            wait_s = max(0.0, wait_s - system_clock())
            if select.select([self._live], [], [], wait_s)[0]:
                events = self._live.events()
                self._over = events is None
                for event in events or ():
                    self._note(event)
                return events or ()

    def _read_gauges(self, now_s: float) -> None:
        """Read the gauges that are due: all on the period of telemetry, those of other work more often in a window."""
        if self._recorder is None:
            return
        whole = now_s >= self._next_reading_s
        if whole or now_s >= self._next_evidence_s:
            self._recorder.read(in_window=self._in_window, evidence_only=not whole)
        if whole:
            self._next_reading_s = max(self._next_reading_s + self._request.procedure.telemetry_period_s, now_s)
        if now_s >= self._next_evidence_s:
            late = now_s >= self._evidence_ends_s
            self._next_evidence_s = math.inf if late else max(self._next_evidence_s + EVIDENCE_PERIOD_S, now_s)

    def _watch_window(self) -> None:
        """Read what tells of other work often from now on, if a window begins; seldom again, if one has ended."""
        how = self._request.procedure
        if self._in_window and not isinstance(self._request, TrainRequest) and how.disturbed == "replace":
            now_s = system_clock()
            self._next_evidence_s, self._evidence_ends_s = now_s + EVIDENCE_PERIOD_S, now_s + _MOST_EVIDENCE_S
        else:
            self._next_evidence_s = math.inf

    def _ask_where(self, live: LiveTrial) -> None:
        """Ask a trial that hangs for its stack, and wait for the answer a moment."""
        live.ask_where()
        until_s, wait_s = system_clock() + _ANSWER_S, _ANSWER_S
        while select.select([live], [], [], wait_s)[0] and (events := live.events()) is not None:
            wait_s = max(0.0, min(_PAUSE_S, until_s - system_clock()))
            for event in events:
                self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, Live):
            self._live_s = system_clock() - self._began_s
        elif isinstance(event, Progress):
            self._note_beat(system_clock())
        elif isinstance(event, Entered):
            self._ending.stage, self._in_window = event.stage, event.measures
            self._beat_s, self._hung_s = None, math.inf  # what begins may compile or count before its first step
            if self._recorder is not None:
                # Stages begin and end where windows do: counters are read at their very edges, what disturbs is not.
                # An epoch is long, and nothing lies between it and the next.
                self._recorder.read(in_window=event.measures and not isinstance(self._request, TrainRequest))
                self._watch_window()
        elif isinstance(event, Stack):
            self._ending.stack += event.lines
        elif isinstance(event, Measured):
            self._measured = event
        elif isinstance(event, Ended):
            self._ended = event
        self._watcher.heard(event)

    def _is_hung(self, now_s: float) -> bool:
        """Say whether ranks are silent for too long. Not where something was said while this process was stopped."""
        if now_s < self._hung_s or self._beat_s is None or select.select([self._live], [], [], 0.0)[0]:
            return False
        self._silent_s = now_s - self._beat_s
        return True

    def _note_beat(self, now_s: float) -> None:
        if self._beats and self._beat_s is not None:
            self._longest_s = max(self._longest_s, now_s - self._beat_s)
            self._hung_s = now_s + max(_SILENT_S, _SILENT_TIMES * self._longest_s)
        self._beat_s = now_s

    def _outcome(self, wrong: str | None) -> Outcome:
        if self._silent_s is not None:
            return self._ending.hung(self._silent_s)
        if self._timed_out:
            return self._ending.timed_out(self._limit_s)
        if self._ended is None:
            return self._ending.died(wrong)
        measuring = not isinstance(self._request, RehearseRequest | EvaluateRequest | SaveRequest)
        if self._ended.outcome.status == Status.OK and self._measured is None and measuring:
            return Outcome(Status.CRASHED, "ended without any measurement")
        return self._ending.refined(self._ended.outcome)

    def _measurements(self, began_s: float) -> tuple[Measurement, ...]:
        known = list(self._measured.measurements) if self._measured is not None else []
        if self._live_s is not None:
            known.append(Measurement("start_time_s", Stage.SETUP, (round(self._live_s, 6),)))
        if self._measured is not None:
            for name, span in self._measured.windows_s.items():
                moments = tuple(round(moment - began_s, 6) for moment in span)
                known.append(Measurement("window_span_s", Stage.STEADY, moments, name))
        return tuple(known)

    def _facts(self) -> Facts:
        told = self._measured.facts if self._measured is not None else Facts()
        ticks = self._recorder.facts() if self._recorder is not None and self._measured is not None else Facts()
        return merged(told, Facts(heap=self._request.procedure.heap), ticks, self.facts)
