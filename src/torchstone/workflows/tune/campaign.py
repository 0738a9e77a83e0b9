"""A tune from request to stored result: check, try the user's code, search, final round, write, index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.run import Plan, Run
from torchstone.execution import plan
from torchstone.execution.controller.active_run import OpenRun
from torchstone.execution.controller.device_lock import SHARE, WhenBusy, held
from torchstone.execution.controller.energy_windows import for_objective
from torchstone.execution.controller.session import Session
from torchstone.storage.reading import record_path
from torchstone.storage.record import RecordWriter
from torchstone.workflows.run.results import Results, published
from torchstone.workflows.tune.request import TuneRequest, TuneSketch
from torchstone.workflows.tune.space import Space
from torchstone.workflows.tune.tune import take
from torchstone.workflows.tune.watching import TuneWatcher

_ROUNDS = 3  # of the final comparison, by default


class TuneCampaign:
    """One `torchstone tune`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: TuneRequest, watcher: TuneWatcher, busy: WhenBusy = SHARE) -> None:
        self._sketch = TuneSketch(request)
        self._request, self._objective = request.run, request.objective
        self._watcher = watcher
        self._busy = busy
        if "," in (request.run.device or ""):
            raise UsageError(f"--device {request.run.device}: tune takes one device at a time")

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Tune into `folder`."""
        request, sketch = self._request, self._sketch.sketch
        model = sketch.workload.model
        with Session(request.procedure, [model], self._watcher) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device or "auto", found, machine)
            session.procedure = for_objective(session.procedure, self._objective, placement)
            if not sketch.own:
                Space(self._sketch.quest(placement, machine, 1))  # what is wrong with it is said before anyone waits
            code = {model: sketch.code_sha256} if sketch.code_sha256 is not None else {}
            head = session.head(
                Plan((), ()), machine, request.name or "tune", command, source=request.source, code=code
            )
            with held([placement], machine, head.run_id, self._busy):
                if sketch.own:
                    first = plan.first_case(sketch, placement, machine)
                    self._sketch.take(session.rehearsed(first, sketch.left_open))
                quest = self._sketch.quest(placement, machine, session.procedure.trials or _ROUNDS)
                Space(quest)  # one without a point is refused here, before anything is written
                head = msgspec.structs.replace(head, quest=quest)
                with RecordWriter(record_path(folder, head.run_id), head) as writer:
                    self._watcher.begins(head)
                    so_far = Run(head, (), (), None)
                    open_run = OpenRun(session, writer, so_far, folder, self._sketch.notes(placement))
                    run = take(open_run, so_far, self._watcher)
        return published(run, folder)


def going_on(watcher: TuneWatcher) -> Callable[[OpenRun, Run], Run]:
    """Return what `resume` does with the open run of a tune."""
    return lambda open_run, so_far: take(open_run, so_far, watcher)
