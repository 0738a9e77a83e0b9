"""From a request to stored results: check it, rehearse what is the user's own, measure, write, index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone import plan
from torchstone.plan import Sketch
from torchstone.runner.device_lock import SHARE, WhenBusy, held
from torchstone.runner.open_run import take_all
from torchstone.runner.results import Results, published
from torchstone.runner.session import Session
from torchstone.runner.watcher import Watcher
from torchstone.terms.case import Placement
from torchstone.terms.machine import Machine
from torchstone.terms.run import Plan

if TYPE_CHECKING:
    from torchstone.config.request import RunRequest


class Campaign:
    """One `torchstone run`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: RunRequest, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        self._request = request
        self._watcher = watcher
        self._busy = busy
        asks = [workload.ask(request.exclude) for workload in request.workloads]
        self._sketches = [plan.sketch(ask) for ask in asks]

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`; return the summary, and where document and table are."""
        request, preload = self._request, [sketch.workload.model for sketch in self._sketches]
        with Session(request.procedure, preload, self._watcher) as session:
            machine, found = session.inspect()
            placements = [plan.place(word, found, machine) for word in (request.device or "auto").split(",")]
            how = session.procedure
            code = {s.workload.model: s.code_sha256 for s in self._sketches if s.code_sha256 is not None}
            head = session.head(Plan((), ()), machine, request.name or "run", command, source=request.source, code=code)
            with held(placements, machine, head.run_id, self._busy):
                sketches = [self._rehearsed(session, sketch, placements[0], machine) for sketch in self._sketches]
                whole = plan.arrange(sketches, placements, machine, how.trials, how.seed, request.first)
                run = take_all(session, msgspec.structs.replace(head, plan=whole), folder)
        return published(run, folder)

    @staticmethod
    def _rehearsed(session: Session, sketch: Sketch, placement: Placement, machine: Machine) -> Sketch:
        """Return a Sketch with what the user's own code decides, rehearsed in its first configuration."""
        if not sketch.own:
            return sketch
        return plan.settled(sketch, session.rehearsed(plan.first_case(sketch, placement, machine), sketch.left_open))
