"""Going on with a run that was killed, interrupted or out of time: what its record lacks is taken, and only that.

Before a trial is added, it is checked that it would measure the same thing: the request, the user's own code and
data, and the machine are compared with what the record's head says of them. Nothing is written before all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from torchstone.config.recipe_files import digest_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.load import SEARCH
from torchstone.core.schema.ranks import WORLD_SIZE, widest
from torchstone.core.schema.run import Head, Plan, Run
from torchstone.execution import machine_facts
from torchstone.execution.controller.active_run import RESUMED, ActiveRun, finish, missing
from torchstone.execution.controller.device_lock import WhenBusy, held
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.machine_facts import of_devices, of_host
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.run.recorded_request import asked_for, nodes_for, recheck, workloads
from torchstone.workflows.run.results import Results, published, table_path


class Resumption:
    """One `torchstone resume`. `force`: go on even where something has changed, and say so in a finding.

    `go_on` takes what is missing and ends the run; the run of a tune is given one that knows how to search.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        watcher: Watcher,
        busy: WhenBusy,
        *,
        force: bool = False,
        go_on: Callable[[ActiveRun, Run], Run] = finish,
    ) -> None:
        self._path = path
        # A record named by its path may belong to another output folder than the present one.
        self._folder = path.parent.parent if path.parent.name == "records" else folder
        self._watcher = watcher
        self._busy = busy
        self._force = force
        self._go_on = go_on
        self._changes: list[str] = []

    def carry_out(self, time_limit_s: float | None = None) -> Results:
        """Take what is missing and return the whole run's results. `time_limit_s` replaces that of the record.

        Raises UsageError where there is nothing to do, or where the rest would not measure the same as the beginning.
        """
        writer, so_far = RecordWriter.reopen(self._path)
        with writer:
            head = so_far.head
            if _is_complete(so_far):
                if table_path(self._folder, head.run_id).exists():
                    raise UsageError(f"{head.run_id}: nothing is missing, all {len(so_far.trials)} trials are done")
                return published(so_far, self._folder)  # the disk was full when it had measured everything
            if head.ab is not None:
                raise UsageError(f"{head.run_id} is an A/B run, which cannot be resumed; start a new one")
            if head.command[:1] == (SEARCH,):
                raise UsageError(f"{head.run_id} looked for goodput, which cannot be resumed; start a new one")
            if (fit := head.procedure.fit) is not None:
                raise UsageError(f"{head.run_id} is a training; `torchstone train --resume {fit.folder}` continues it")
            own = self._own_cases(head)
            self._insist(head, "has changed since its start")
            self._changes += of_host(head.machine, machine_facts.host(), machine_facts.settings())
            self._insist(head, "was started on another machine or with other settings")
            how = head.procedure
            if time_limit_s is not None:
                how = msgspec.structs.replace(how, time_limit_s=time_limit_s)
            models = [workload.model for workload in workloads(asked_for(head))]
            session = Session(how, models, self._watcher, nodes=nodes_for(head))
            run = self._taken(writer, so_far, session, own)
        return published(run, self._folder)

    def _taken(self, writer: RecordWriter, so_far: Run, session: Session, own: Sequence[Case]) -> Run:
        head = so_far.head
        here = [head.plan.cases[place] for place in head.measurable]
        placements = list(dict.fromkeys(case.placement for case in (here if head.tune is None else asked_for(head))))
        with session:
            machine, _ = session.inspect()
            self._changes += of_devices(head.machine, machine, placements)
            self._insist(head, "was started with other devices or libraries")
            searched = [{WORLD_SIZE: n} for n in head.tune.axes.get(WORLD_SIZE, ())] if head.tune is not None else []
            wanted = [*(case.configuration for case in asked_for(head)), *searched]
            with held([widest(one, wanted) for one in placements], machine, head.run_id, self._busy):
                session.rehearse(own)
                rest = Plan(head.plan.cases, tuple(slot for _, slot in missing(so_far)))
                self._watcher.begins(msgspec.structs.replace(head, plan=rest))
                return self._go_on(ActiveRun(session, writer, so_far, self._folder, self._notes()), so_far)

    def _insist(self, head: Head, what: str) -> None:
        if self._changes and not self._force:
            raise UsageError(f"{head.run_id} {what}: {'; '.join(self._changes)}; --force continues nevertheless")

    def _notes(self) -> list[Finding]:
        if not self._changes:
            return []
        return [Finding(RESUMED, Severity.WARNING, "run", {"changes": tuple(self._changes)})]

    def _own_cases(self, head: Head) -> Sequence[Case]:
        """Return a Case of each workload that is the user's own, and note what has changed of the request."""
        found = recheck(head, asked_for(head))
        self._changes += _change_of(head.source.word, head.source.sha256) if head.source is not None else []
        self._changes += found.changes
        return found.own


def _change_of(word: str, sha256: str) -> list[str]:
    try:
        return [] if digest_of(word) == sha256 else [f"{word} has changed"]
    except UsageError as fault:
        return [f"its file is missing ({fault})"]


def _is_complete(run: Run) -> bool:
    return run.end is not None and run.end.status == "done" and not any(missing(run))
