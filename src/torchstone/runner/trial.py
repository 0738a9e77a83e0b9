"""One trial from the controller's side: block on its pipe, read gauges meanwhile, end it when its time is up."""

from __future__ import annotations

import datetime
import select
import uuid

from torchstone.extend_machine import Launcher, LiveTrial
from torchstone.instrument.clock import Clock, system_clock
from torchstone.runner.ending import Ending
from torchstone.runner.recorder import Recorder
from torchstone.runner.watcher import Watcher
from torchstone.terms.machine import DeviceInfo
from torchstone.terms.message import Ended, Entered, Event, Live, Measured, Stack, TrialRequest
from torchstone.terms.trial import Measurement, Outcome, Stage, Status, Trial

_ANSWER_S = 0.5  # how long a trial that hangs may take to say where
_PAUSE_S = 0.05  # it has said it when it has been silent for so long


class TrialDrive:
    """Drives one TrialRequest to a Trial."""

    def __init__(
        self, request: TrialRequest, device: DeviceInfo | None, watcher: Watcher, clock: Clock = system_clock
    ) -> None:
        self._request = request
        self._device = device
        self._watcher = watcher
        self._clock = clock
        self._measured: Measured | None = None
        self._ended: Ended | None = None
        self._ending = Ending()
        self._live_s: float | None = None
        self._recorder: Recorder | None = None

    @property
    def mistake(self) -> str | None:
        """The line for the user, where the user's own model or data was at fault."""
        return self._ended.mistake if self._ended is not None else None

    def run(self, launcher: Launcher, order: int) -> Trial:
        """Start the trial, wait for its end, and return what is known of it."""
        started_utc = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        began_s = self._clock()
        live = launcher.start(self._request)
        try:
            timed_out = not self._listen(live, began_s)
        except BaseException:
            live.kill()
            live.ending()
            raise
        wrong = live.ending()
        return Trial(
            trial_id=uuid.uuid4().hex[:12],
            case_id=self._request.case.case_id,
            number=self._request.number,
            order=order,
            started_utc=started_utc,
            duration_s=round(self._clock() - began_s, 6),
            outcome=self._outcome(wrong, timed_out=timed_out),
            facts={**(self._measured.facts if self._measured else {}), **self._heap()},
            measurements=self._measurements(began_s),
            series=self._recorder.series() if self._recorder else (),
        )

    def _listen(self, live: LiveTrial, began_s: float) -> bool:
        """Handle events until the trial ends. Returns False when it had to be ended for its time."""
        procedure = self._request.procedure
        deadline_s, period_s = began_s + procedure.timeout_s, procedure.telemetry_period_s
        if period_s > 0:
            self._recorder = Recorder(live.pid, self._device, began_s, self._clock)
        next_reading_s = began_s if period_s > 0 else deadline_s
        while True:
            now_s = self._clock()
            if now_s >= deadline_s:
                self._ask_where(live, began_s)
                live.kill()
                return False
            if now_s >= next_reading_s and self._recorder is not None:
                self._recorder.read()
                next_reading_s = max(next_reading_s + period_s, now_s)
            readable, _, _ = select.select([live], [], [], max(0.0, min(deadline_s, next_reading_s) - self._clock()))
            if readable:
                events = live.events()
                if events is None:
                    return True
                for event in events:
                    self._note(event, began_s)

    def _ask_where(self, live: LiveTrial, began_s: float) -> None:
        """Ask a trial that hangs for its stack, and wait for the answer a moment."""
        live.ask_where()
        until_s, wait_s = self._clock() + _ANSWER_S, _ANSWER_S
        while select.select([live], [], [], wait_s)[0] and (events := live.events()) is not None:
            wait_s = max(0.0, min(_PAUSE_S, until_s - self._clock()))
            for event in events:
                self._note(event, began_s)

    def _note(self, event: Event, began_s: float) -> None:
        if isinstance(event, Live):
            self._live_s = self._clock() - began_s
        elif isinstance(event, Entered):
            self._ending.stage = event.stage
            if self._recorder is not None:
                self._recorder.read()  # stages begin and end where windows do: counters are read at their very edges
        elif isinstance(event, Stack):
            self._ending.stack += event.lines
        elif isinstance(event, Measured):
            self._measured = event
        elif isinstance(event, Ended):
            self._ended = event
        self._watcher.heard(event)

    def _outcome(self, wrong: str | None, *, timed_out: bool) -> Outcome:
        if timed_out:
            return self._ending.timed_out(self._request.procedure.timeout_s)
        if self._ended is None:
            return self._ending.died(wrong)
        measuring = not self._request.rehearse and self._request.evaluation is None
        if self._ended.outcome.status == Status.OK and self._measured is None and measuring:
            return Outcome(Status.CRASHED, "ended without having measured anything")
        return self._ending.said(self._ended.outcome)

    def _measurements(self, began_s: float) -> tuple[Measurement, ...]:
        known = list(self._measured.measurements) if self._measured is not None else []
        if self._live_s is not None:
            known.append(Measurement("start_time_s", Stage.SETUP, (round(self._live_s, 6),)))
        if self._measured is not None:
            for name, span in self._measured.windows_s.items():
                moments = tuple(round(moment - began_s, 6) for moment in span)
                known.append(Measurement("window_span_s", Stage.STEADY, moments, name))
        return tuple(known)

    def _heap(self) -> dict[str, str]:
        return {"heap": self._request.procedure.heap}
