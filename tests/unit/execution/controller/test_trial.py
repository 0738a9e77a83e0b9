"""One trial from the controller's side, with a scripted trial at the other end of a real pipe."""

import os
import threading

import pytest
from build import a_case

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import (
    Ended,
    Entered,
    Event,
    Live,
    Measured,
    Progress,
    Ready,
    Stack,
    TrainRequest,
    TrialRequest,
    TurnEnded,
)
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Measurement, Outcome, Stage, Status
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.trial import TrialDrive
from torchstone.plugins.machine_protocols import Launcher


class Scripted(Launcher):
    """A launcher whose trial says what it is told to, and then ends (or hangs until it is killed)."""

    def __init__(self, script, wrong=None, hangs=False, answer=()):
        self.script, self.wrong, self.hangs, self.answer, self.killed = script, wrong, hangs, answer, False
        self.pid, self.facts = os.getpid(), Facts(not_forked=Statement("intel"))
        self._read, self._write = os.pipe()

    describes = "says what it is told to"

    def ready(self):
        """It is."""

    def open(self, preload, heap, folder=None, *, pin_threads=False):
        """Ready."""

    def close(self):
        """Done."""

    def start(self, request):
        self._talker = threading.Thread(target=self._talk, daemon=True)
        self._talker.start()
        return self

    def _talk(self):
        for event in self.script:
            os.write(self._write, encode(event) + b"\n")
        if not self.hangs:
            os.close(self._write)

    def fileno(self):
        return self._read

    def events(self):
        data = os.read(self._read, 1 << 20)
        return [decode(line, Event) for line in data.splitlines()] if data else None

    def ask_where(self):
        os.write(self._write, b"".join(encode(event) + b"\n" for event in self.answer))

    def kill(self):
        self.killed = True
        self._talker.join()  # its last words are few: they fit into the pipe
        if self.hangs:
            os.close(self._write)

    def ending(self):
        return self.wrong


class Listening(Silent):
    def __init__(self):
        self.said = []

    def heard(self, event):
        self.said.append(event)


def take(launcher, watcher=None, **procedure):
    request = TrialRequest(a_case(), Procedure(telemetry_period_s=0.0, **procedure), 2)
    return TrialDrive(request, None, watcher or Silent()).run(launcher, order=5)


OK = Ended(Outcome(Status.OK))
MEASURED = Measured(
    (Measurement("loss", Stage.STEADY, (1.0, float("nan")), "throughput"),),
    Facts(fused_optimizer=True),
    {"throughput": (1.0, 2.0)},
)


def test_what_was_measured_becomes_the_trial():
    watcher = Listening()
    progress = Progress("throughput", 3, 1.0, 0.1)
    trial = take(Scripted([Live(), Entered("building", 0.0), progress, MEASURED, OK]), watcher)
    assert trial.outcome.status == Status.OK
    assert (trial.number, trial.order, trial.case_id) == (2, 5, a_case().case_id)
    assert trial.facts.fused_optimizer is True
    assert trial.facts.not_forked == Statement("intel")
    assert trial.values("start_time_s", Stage.SETUP)[0] >= 0.0
    begin_s, end_s = trial.values("window_span_s")
    assert end_s - begin_s == pytest.approx(1.0)
    assert str(trial.values("loss")) == "(1.0, nan)", "not even a NaN is lost on the way"
    assert progress in watcher.said


@pytest.mark.parametrize(
    ("script", "wrong", "status", "message"),
    [
        ([Live()], "killed by SIGSEGV", Status.CRASHED, "killed by SIGSEGV"),
        ([Live(), Entered("warm-up", 0.0)], "killed by SIGSEGV", Status.CRASHED, "killed by SIGSEGV during warm-up"),
        ([], None, Status.CRASHED, "exited with code 0, before it finished"),
        ([Live(), OK], None, Status.CRASHED, "without any measurement"),
        ([Live(), Ended(Outcome(Status.OUT_OF_MEMORY, "no room"))], None, Status.OUT_OF_MEMORY, "no room"),
        ([Live(), Ended(Outcome(Status.UNSUPPORTED, "no tf32"))], None, Status.UNSUPPORTED, "no tf32"),
    ],
)
def test_every_other_end_is_data(script, wrong, status, message):
    trial = take(Scripted(script, wrong))
    assert trial.outcome.status == status
    assert message in str(trial.outcome.message)


def test_a_trial_that_hangs_is_killed_when_its_time_is_up():
    answer = [Stack(("Stack (most recent call first):", '  File "/home/me/mine.py", line 7 in forward'))]
    launcher = Scripted([Live(), Entered("warm-up", 0.0)], hangs=True, answer=answer)
    trial = take(launcher, timeout_s=0.2)
    assert launcher.killed
    assert trial.outcome.status == Status.TIMED_OUT
    assert trial.outcome.message == "timed out after 0.2 s during warm-up at mine.py:7 in forward"
    assert trial.outcome.traceback == '  File "/home/me/mine.py", line 7, in forward'
    assert 0.2 <= trial.duration_s < 2.0


STEPS = [Entered("warm-up", 0.0), Progress("warm-up", 1, 0.1, 0.1), Progress("warm-up", 2, 0.2, 0.1)]
TWO_RANKS = a_case({"world_size": 2}, placement=Placement("cpu", count=2))


def drive_of_ranks(case, script, monkeypatch):
    monkeypatch.setattr("torchstone.execution.controller.trial._SILENT_S", 0.3)
    launcher = Scripted(script, hangs=True, answer=[Stack(("rank 0", "  no answer", "rank 1", "no answer, stopped"))])
    return TrialDrive(TrialRequest(case, Procedure(telemetry_period_s=0.0, timeout_s=1.5), 0), None, Silent()).run(
        launcher, 0
    )


def test_ranks_that_do_no_step_any_more_are_ended_before_their_time_is_up(monkeypatch):
    trial = drive_of_ranks(TWO_RANKS, STEPS, monkeypatch)
    assert trial.outcome.status == Status.TIMED_OUT
    assert str(trial.outcome.message).startswith("no step for 0 s during warm-up")
    assert 0.3 <= trial.duration_s < 1.2


@pytest.mark.parametrize(
    ("case", "script"),
    [(a_case(), STEPS), (TWO_RANKS, [*STEPS, Entered("counting", 0.3)]), (TWO_RANKS, STEPS[:2])],
    ids=["one process", "a stage without steps", "the first step is not over"],
)
def test_what_may_take_long_has_all_its_time(monkeypatch, case, script):
    trial = drive_of_ranks(case, script, monkeypatch)
    assert str(trial.outcome.message).startswith("timed out after 1.5 s")


def test_an_interrupt_kills_the_trial_and_goes_on():
    class Interrupting(Silent):
        def heard(self, event):
            raise KeyboardInterrupt

    launcher = Scripted([Live()], hangs=True)
    with pytest.raises(KeyboardInterrupt):
        take(launcher, Interrupting())
    assert launcher.killed


def test_gauges_are_read_on_the_period_and_at_the_edges_of_stages():
    request = TrialRequest(a_case(), Procedure(telemetry_period_s=30.0), 0)
    script = [Live(), Entered("latency", 0.0), Entered("throughput", 0.0), MEASURED, OK]
    trial = TrialDrive(request, None, Silent()).run(Scripted(script), order=0)
    busy = next(series for series in trial.series if series.metric == "host_busy_s")
    assert len(busy.values) == 3
    assert list(busy.at_s) == sorted(busy.at_s)


@pytest.mark.parametrize(("limit_s", "timeout_s"), [(0.3, 30.0), (30.0, 0.3)])
def test_a_trial_that_takes_turns_is_killed_when_the_time_of_a_turn_is_up(limit_s, timeout_s):
    answer = [Stack(("Stack (most recent call first):", '  File "/home/me/mine.py", line 7 in forward'))]
    launcher = Scripted([Live(), Ready(0.01, 0, 1)], hangs=True, answer=answer)
    procedure = Procedure(telemetry_period_s=0.0, timeout_s=timeout_s)
    drive = TrialDrive(TrialRequest(a_case(), procedure, 2), None, Silent())
    drive.start(launcher)
    assert drive.hear(Ready) is not None
    assert drive.hear(TurnEnded, limit_s) is None
    trial = drive.conclude(0, 60.0)
    assert launcher.killed
    assert trial.outcome.status == Status.TIMED_OUT
    assert str(trial.outcome.message).startswith("timed out after 0.3 s")
    assert trial.duration_s < 2.0


class Noting:
    """A TelemetrySampler that notes when it is read."""

    last: "Noting"

    def __init__(self, *_, **__):
        self.reads = []
        Noting.last = self

    def read(self, *, in_window=False, evidence_only=False):
        if not evidence_only:
            self.reads.append(in_window)

    def series(self):
        return ()

    def facts(self):
        return Facts(energy_tick_s=0.1)


@pytest.mark.parametrize(("fit", "at_epochs"), [(None, True), (Fit(), False)])
def test_windows_are_told_to_the_recorder_and_the_tick_becomes_a_fact(monkeypatch, fit, at_epochs):
    monkeypatch.setattr("torchstone.execution.controller.trial.TelemetrySampler", Noting)
    script = [Entered("warm-up", 0.0), Entered("a window", 0.0, measures=True), Entered("counting", 0.0), MEASURED, OK]
    procedure = Procedure(telemetry_period_s=30.0)
    request = TrainRequest(a_case(), procedure, fit=fit) if fit else TrialRequest(a_case(), procedure)
    trial = TrialDrive(request, None, Silent()).run(Scripted(script), order=0)
    assert Noting.last.reads[-3:] == [False, at_epochs, False]
    assert trial.facts.energy_tick_s == 0.1
