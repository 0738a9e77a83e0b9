"""A session: an open launcher, the Machine it runs on, and the run it drives trial by trial into a record."""

from __future__ import annotations

import datetime
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from torchstone import machine_facts, registry
from torchstone.errors import TorchstoneError, UsageError
from torchstone.extend import Launcher
from torchstone.runner.checking import look
from torchstone.runner.trial import TrialDrive
from torchstone.runner.watcher import Silent, Watcher
from torchstone.store.reading import read_record, record_path
from torchstone.store.record import RecordWriter
from torchstone.terms.case import Case
from torchstone.terms.machine import Machine
from torchstone.terms.message import Ended, Inspected, InspectRequest, TrialRequest
from torchstone.terms.procedure import Procedure
from torchstone.terms.run import SCHEMA, End, Head, Noted, Plan, Run
from torchstone.terms.trial import Outcome, Status


def isolation(word: str) -> str:
    """Return the launcher that `auto` means here: fork, but not on macOS, whose frameworks do not survive one."""
    if word != "auto":
        return word
    return "fork" if sys.platform == "linux" else "spawn"


def _crash(case: Case, outcome: Outcome) -> str:
    """Return what crashed, and where: the lines of the user's own traceback without the error they end with."""
    if outcome.traceback is None:
        return f"{case.workload.model}: {outcome.message}"
    return "\n".join((f"{case.workload.model} raised {outcome.message}", *outcome.traceback.splitlines()[:-1]))


class Session:
    """Use as a context manager. `preload`: the models whose libraries the template imports."""

    def __init__(self, procedure: Procedure, preload: Sequence[str], watcher: Watcher | None = None) -> None:
        self.procedure = msgspec.structs.replace(procedure, isolation=isolation(procedure.isolation))
        self._preload = tuple(dict.fromkeys(preload))
        self._watcher: Watcher = watcher or Silent()
        self._launcher: Launcher = registry.load("launchers", self.procedure.isolation)

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:  # Ctrl-C while the template still imports: it must not outlive us
            self._launcher.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._launcher.close()

    def _open(self) -> None:
        self._launcher.open(self._preload, self.procedure.heap)

    def inspect(self) -> tuple[Machine, Inspected]:
        """Return this Machine, as a fresh process finds it."""
        live = self._launcher.start(InspectRequest())
        found: Inspected | None = None
        wrong: str | None = None
        while (events := live.events()) is not None:
            for event in events:
                found = event if isinstance(event, Inspected) else found
                if isinstance(event, Ended) and event.outcome.status != Status.OK:
                    wrong = event.outcome.message
        ending = live.ending()
        if found is None:
            raise TorchstoneError(f"this machine could not be inspected: {wrong or ending}")
        machine = Machine(machine_facts.host(), found.devices, found.software, machine_facts.settings())
        return machine, found

    def rehearse(self, cases: Sequence[Case]) -> None:
        """Do one step of each Case with the user's own model or data. Raises UsageError where it crashes."""
        for case in cases:
            drive = TrialDrive(TrialRequest(case, self.procedure, 0, rehearse=True), None, Silent())
            outcome = drive.run(self._launcher, 0).outcome
            if drive.mistake is not None:
                raise UsageError(drive.mistake)
            if outcome.status == Status.CRASHED:
                raise UsageError(_crash(case, outcome))

    def run(self, plan: Plan, machine: Machine, name: str, command: Sequence[str], folder: Path) -> Run:
        """Take every trial of the plan, each safely in the record before the next starts, and return the Run."""
        now = datetime.datetime.now(datetime.UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        head = Head(
            SCHEMA, run_id, name, now.isoformat(timespec="seconds"), tuple(command), machine, self.procedure, plan
        )
        path = record_path(folder, run_id)
        with RecordWriter(path, head) as writer:
            self._watcher.begins(head)
            status = "done"
            try:
                self._take_all(head, writer, folder)
            except KeyboardInterrupt:
                status = "interrupted"
            for finding in look(read_record(path)):
                writer.append(Noted(finding))
            writer.append(End(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), status))
        return read_record(path)

    def _take_all(self, head: Head, writer: RecordWriter, folder: Path) -> None:
        round_number = 0
        for order, slot in enumerate(head.plan.slots):
            if slot.number != round_number:
                # Forks of one template share its address layout, so that replicates would not sample layout luck:
                # every round has a template of its own.
                round_number = slot.number
                self._open()
            case = head.plan.cases[slot.case]
            self._watcher.starts(slot, order)
            device = head.machine.device(case.placement.device, case.placement.index)
            trace_path = self._trace_path(folder, head.run_id, case) if slot.number == 0 else None
            request = TrialRequest(case, self.procedure, slot.number, trace_path=trace_path)
            trial = TrialDrive(request, device, self._watcher).run(self._launcher, order)
            writer.append(trial)
            self._watcher.finished(trial)

    def _trace_path(self, folder: Path, run_id: str, case: Case) -> str | None:
        if not self.procedure.profile:
            return None
        traces = folder / "traces"
        traces.mkdir(parents=True, exist_ok=True)
        return str((traces / f"{run_id}_{case.case_id}.json").absolute())
