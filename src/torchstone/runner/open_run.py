"""A run whose record is open: trials are taken into it one by one, each on disk before the next starts."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import msgspec

from torchstone.runner.checking import look
from torchstone.runner.session import Session
from torchstone.runner.trial import TrialDrive
from torchstone.store.reading import read_record, record_path
from torchstone.store.record import RecordWriter
from torchstone.terms.answer import Answer
from torchstone.terms.case import Case
from torchstone.terms.message import TrialRequest
from torchstone.terms.procedure import Procedure
from torchstone.terms.run import Added, Answered, End, Head, Noted, Run, Slot
from torchstone.terms.trial import Purpose, Status, Trial


class OpenRun:
    """A record being written. `so_far` is what it holds already: only its head where the run is new."""

    def __init__(self, session: Session, writer: RecordWriter, so_far: Run, folder: Path) -> None:
        self.head = so_far.head
        self.session = session
        self._writer = writer
        self._folder = folder
        self._known = {case.case_id for case in self.head.plan.cases}
        self._order = len(so_far.trials)
        self._round: int | None = None

    def add(self, case: Case) -> None:
        """Add a Case that was not planned; one that is there already stays as it is."""
        if case.case_id not in self._known:
            self._known.add(case.case_id)
            self._writer.append(Added(case))

    def take(
        self, case: Case, number: int, purpose: Purpose = Purpose.REPLICATE, how: Procedure | None = None
    ) -> Trial:
        """Take one trial of a Case, by the session's Procedure unless another is given, and return it, recorded."""
        if number != self._round:
            # Forks of one template share its address layout, so that replicates would not sample layout luck:
            # every round has a template of its own.
            if self._round is not None:
                self.session.renew()
            self._round = number
        device = self.head.machine.device(case.placement.device, case.placement.index)
        trace_path = self._trace_path(case) if number == 0 else None
        request = TrialRequest(case, how or self.session.procedure, number, trace_path=trace_path)
        trial = TrialDrive(request, device, self.session.watcher).run(self.session.launcher, self._order)
        trial = msgspec.structs.replace(trial, purpose=purpose)
        self._writer.append(trial)
        self._order += 1
        self.session.watcher.finished(trial)
        return trial

    def answer(self, answer: Answer) -> None:
        """Record what a search found."""
        self._writer.append(Answered(answer))

    def end(self, status: str) -> Run:
        """Look at the run with every check, record what they find and how it ended, and return it whole."""
        for finding in look(read_record(self._writer.path)):
            self._writer.append(Noted(finding))
        self._writer.append(End(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), status))
        return read_record(self._writer.path)

    def _trace_path(self, case: Case) -> str | None:
        if not self.session.procedure.profile:
            return None
        traces = self._folder / "traces"
        traces.mkdir(parents=True, exist_ok=True)
        return str((traces / f"{self.head.run_id}_{case.case_id}.json").absolute())


def take_all(session: Session, head: Head, folder: Path) -> Run:
    """Begin the record of a run in `folder`, take every trial of its plan, and return it."""
    with RecordWriter(record_path(folder, head.run_id), head) as writer:
        session.watcher.begins(head)
        so_far = Run(head, (), (), None)
        return finish(OpenRun(session, writer, so_far, folder), so_far)


def finish(open_run: OpenRun, so_far: Run) -> Run:
    """Take what the plan has and the record lacks, end the run and return it."""
    status = "done"
    try:
        for order, slot in missing(so_far):
            open_run.session.watcher.starts(slot, order)
            open_run.take(so_far.head.plan.cases[slot.case], slot.number)
    except KeyboardInterrupt:
        status = "interrupted"
    return open_run.end(status)


def missing(run: Run) -> Iterator[tuple[int, Slot]]:
    """Yield the planned trials that the record lacks, with their place in the Plan. An interrupted one is lacking."""
    taken = {(t.case_id, t.number) for t in run.trials if t.outcome.status != Status.INTERRUPTED}
    ids = [case.case_id for case in run.head.plan.cases]
    for order, slot in enumerate(run.head.plan.slots):
        if (ids[slot.case], slot.number) not in taken:
            yield order, slot
