"""A run whose record is open: the time limit, how it ends, what is missing, and a disk without room."""

import errno
import os
from types import SimpleNamespace

import msgspec
import pytest
from build import a_case, a_finding, a_run, a_trial
from fakes import FakeClock

from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import End, Plan, Run, Slot
from torchstone.core.schema.trial import Disturbance, Outcome, Purpose, Status
from torchstone.execution.controller import active_run
from torchstone.execution.controller.active_run import ActiveRun, conclude, finish, missing
from torchstone.execution.controller.observer import Silent
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.run import planned_run

CASES = tuple(a_case({"batch_size": size}) for size in (1, 2, 4))
SLOTS = tuple(Slot(case, number) for number in range(2) for case in range(3))
NOTE = a_finding(active_run.RESUMED, Severity.WARNING, "on another machine", "again", "run")
VAIN = a_finding("setting_without_effect", Severity.INFO, "pin_memory=true has no effect", "leave it", "run")


class FakeDrive:
    """Takes 10 s a trial by the fake clock, or as long as it may; `press` is the trial during which Ctrl-C comes."""

    clock: FakeClock
    press: int | None = None
    taken = 0

    def __init__(self, request, device, watcher, others=()):
        self.request = request

    def run(self, launcher, order):
        if FakeDrive.taken == FakeDrive.press:
            raise KeyboardInterrupt
        FakeDrive.taken += 1
        may_s = self.request.procedure.timeout_s
        self.clock.sleep(min(10.0, may_s))
        status = Status.OK if may_s >= 10.0 else Status.TIMED_OUT
        fields = {"case_id": self.request.case.case_id, "number": self.request.number, "order": order}
        return a_trial(trial_id=f"t{order}", outcome=Outcome(status), **fields)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(active_run, "TrialDrive", FakeDrive)
    FakeDrive.clock, FakeDrive.press, FakeDrive.taken = FakeClock(), None, 0
    return FakeDrive.clock


def session(clock, **procedure):
    def renew():
        clock.sleep(3.0)

    how = Procedure(**{"foresee": False, "trials": 2, **procedure})
    return SimpleNamespace(
        procedure=how,
        watcher=Silent(),
        launcher=None,
        renew=renew,
        is_worth_renewing=lambda left_s: True,
        renewal_s=3.0,
        openings=1,
    )  # fmt: skip


def begun(path, clock, notes=(), **procedure):
    head = msgspec.structs.replace(a_run().head, plan=Plan(CASES, SLOTS))
    so_far = Run(head, (), (), None)
    writer = RecordWriter(path, head)
    return ActiveRun(session(clock, **procedure), writer, so_far, path.parent, notes, clock), so_far


def statuses(run):
    return [str(t.outcome.status) for t in run.trials]


def ended(run: Run) -> str | None:
    return run.end.status if run.end is not None else None


def test_no_trial_starts_after_the_limit_and_the_one_at_it_is_ended(tmp_path, clock):
    run = finish(*begun(tmp_path / "r.jsonl", clock, time_limit_s=25.0))
    assert statuses(run) == ["ok", "ok", "interrupted"]
    assert ended(run) == "out of time"
    assert clock.now_s == pytest.approx(25.0)
    assert [order for order, _ in missing(run)] == [2, 3, 4, 5], "the one that was ended is lacking"
    assert run == read_record(tmp_path / "r.jsonl")


def test_a_limit_between_two_trials_ends_it_without_an_interrupted_one(tmp_path, clock):
    run = finish(*begun(tmp_path / "r.jsonl", clock, time_limit_s=32.0))  # in the middle of the second template
    assert (statuses(run), ended(run)) == (["ok"] * 3, "out of time")


def test_a_trial_that_hangs_before_the_limit_is_timed_out_and_data(tmp_path, clock):
    run = finish(*begun(tmp_path / "r.jsonl", clock, time_limit_s=500.0, timeout_s=5.0))
    assert (statuses(run), ended(run)) == (["timed_out"] * 6, "done")


def test_an_interrupt_keeps_what_was_taken(tmp_path, clock):
    FakeDrive.press = 2
    run = finish(*begun(tmp_path / "r.jsonl", clock))
    assert (statuses(run), ended(run)) == (["ok"] * 2, "interrupted")


def test_a_resumed_run_is_whole_and_remembers_that_it_was_resumed_elsewhere(tmp_path, clock):
    path = tmp_path / "r.jsonl"
    FakeDrive.press = 2
    opened, so_far = begun(path, clock, notes=[NOTE, VAIN])
    finish(opened, so_far)
    opened._writer.close()
    FakeDrive.press = None
    for _ in range(2):  # the second time there is nothing left but to end it
        writer, so_far = RecordWriter.reopen(path)
        with writer:
            run = finish(ActiveRun(session(clock), writer, so_far, tmp_path, clock=clock), so_far)
    assert sorted((t.case_id, t.number) for t in run.trials) == sorted((CASES[s.case].case_id, s.number) for s in SLOTS)
    assert [t.order for t in run.trials] == list(range(6))
    assert list(missing(run)) == []
    assert ended(run) == "done"
    assert [f for f in run.findings if f in (NOTE, VAIN)] == [NOTE, VAIN]
    assert len(run.findings) == len(set(run.findings))
    assert run == read_record(path)


def test_what_a_search_does_ends_like_a_plan(tmp_path, clock):
    opened, _ = begun(tmp_path / "r.jsonl", clock, time_limit_s=15.0)

    def work() -> None:
        for case in CASES:
            opened.take(case, 0)

    run = conclude(opened, work)
    assert (statuses(run), ended(run)) == (["ok", "interrupted"], "out of time")


@pytest.mark.parametrize("what", ["document", "table"])
def test_a_full_disk_after_the_last_trial_says_what_is_safe_and_what_to_type(tmp_path, monkeypatch, what):
    run = a_run(end=End("t", "done"))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if what == "document":
        monkeypatch.setattr("torchstone.storage.run_document.document_bytes", full)
    else:
        monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    with pytest.raises(MissingError) as fault:
        planned_run.published(run, tmp_path)
    assert f"No space left on device; free some space, then `torchstone resume {run.head.run_id}" in str(fault.value)
    assert str(fault.value).startswith(f"cannot write {tmp_path}")
    assert not list(tmp_path.rglob("*.csv"))
    assert not list(tmp_path.rglob(".writing_*"))


def test_a_folder_of_traces_that_cannot_be_made_stops_in_one_line(tmp_path, clock):
    (tmp_path / "traces").write_text("in the way")
    opened, so_far = begun(tmp_path / "r.jsonl", clock, profile=True)
    with pytest.raises(MissingError, match=r"cannot write .*traces: .*continues"):
        finish(opened, so_far)


DISTURBED = Disturbance(disturbed=True, share=1.0)


def of_fate(monkeypatch, *disturbed, lasting_s=1.0):
    """Have the trials be disturbed or not, in their order; return what is filled with the most each wait may take."""
    fate, waits = iter(disturbed), []

    class Fated(FakeDrive):
        def run(self, launcher, order):
            trial = super().run(launcher, order)
            disturbance = DISTURBED if next(fate) else None
            return msgspec.structs.replace(trial, disturbance=disturbance, duration_s=lasting_s)

    monkeypatch.setattr(active_run, "TrialDrive", Fated)

    def wait(most_s, _tell, _clock):
        waits.append(most_s)
        return 1.0

    monkeypatch.setattr(active_run, "wait_for_quiet", wait)
    return waits


def test_a_run_waits_for_the_machine_before_the_first_trial_and_after_a_disturbed_one(tmp_path, clock, monkeypatch):
    waits = of_fate(monkeypatch, True, False, False, False)
    opened, _ = begun(tmp_path / "r.jsonl", clock, trials=None)
    for number in range(4):
        opened.take(CASES[0], number)
    assert len(waits) == 2
    assert all(0.0 < most_s <= 10.0 for most_s in waits)


def test_a_number_of_trials_that_was_asked_for_is_taken_as_it_is(tmp_path, clock, monkeypatch):
    waits = of_fate(monkeypatch, *[True] * 6)
    run = finish(*begun(tmp_path / "r.jsonl", clock))
    assert [trial.disturbed for trial in run.trials] == [True] * 6
    assert waits == []


def test_a_run_that_keeps_what_was_disturbed_neither_waits_nor_looks(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(active_run, "wait_for_quiet", lambda *_: pytest.fail("it waited"))
    opened, _ = begun(tmp_path / "r.jsonl", clock, trials=None, disturbed="keep")
    assert opened.take(CASES[0], 0).outcome.status == Status.OK


def test_a_disturbed_probe_is_taken_again_twice_at_most(tmp_path, clock, monkeypatch):
    of_fate(monkeypatch, *[True] * 4)
    opened, _ = begun(tmp_path / "r.jsonl", clock)
    assert opened.take(CASES[0], 0, Purpose.PROBE).disturbed
    assert FakeDrive.taken == 3
    opened.take(CASES[0], 0)
    assert FakeDrive.taken == 4


def test_a_disturbed_probe_of_two_minutes_is_not_taken_again(tmp_path, clock, monkeypatch):
    of_fate(monkeypatch, True, False, lasting_s=120.0)
    opened, _ = begun(tmp_path / "r.jsonl", clock)
    assert opened.take(CASES[0], 0, Purpose.PROBE).disturbed
    assert FakeDrive.taken == 1


def test_probes_are_not_taken_again_while_that_is_in_vain(tmp_path, clock, monkeypatch):
    of_fate(monkeypatch, True, True, True, True, False, True, False)
    opened, _ = begun(tmp_path / "r.jsonl", clock)
    taken = []
    for number in range(4):
        opened.take(CASES[0], number, Purpose.PROBE)
        taken.append(FakeDrive.taken)
    assert taken == [3, 4, 5, 7]
