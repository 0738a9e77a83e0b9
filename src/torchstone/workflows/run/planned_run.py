"""From a request to stored results: check it, rehearse what is the user's own, measure, write, index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.page_locking import notes
from torchstone.core.schema.ranks import most_nodes, widest
from torchstone.core.schema.run import Plan
from torchstone.execution import plan
from torchstone.execution.controller.active_run import take_all
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.plan import Sketch
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.measured import usual_spread
from torchstone.workflows.campaign import begun, code_of
from torchstone.workflows.run.results import Results, published

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest


class Campaign:
    """One `torchstone run`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: RunRequest, watcher: Watcher, busy: WhenBusy = SHARE) -> None:
        self._request = request
        self._watcher = watcher
        self._busy = busy
        requests = [workload.excluding(request.exclude) for workload in request.workloads]
        self._sketches = [plan.sketch(one) for one in requests]

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`; return the summary, and where document and table are."""
        began_s = system_clock()
        request, preload = self._request, [sketch.workload.model for sketch in self._sketches]
        wanted = [one for sketch in self._sketches for one in sketch.configurations]
        nodes = most_nodes(wanted)
        with Session(request.procedure, preload, self._watcher, nodes=nodes) as session:
            machine, found = session.inspect()
            words = (request.device or "auto").split(",")
            placements, absent = places(words, found, machine, absent_ok=request.absent_ok)
            how = session.procedure
            held = [widest(placement, wanted) for placement in placements]
            with begun(
                session, machine, held, request.name or "run", command, self._busy, source=request.source,
                code=code_of(self._sketches), usual=usual_spread(folder, machine),
            ) as (draft, waited_s):  # fmt: skip
                began_s += waited_s  # waiting for others is not part of the run's time
                sketches = [self._rehearsed(session, sketch, placements[0], machine) for sketch in self._sketches]
                whole = plan.arrange(sketches, placements, machine, how.repetitions, how.seed, request.first)
                told = notes([one.configurations for one in sketches], placements)
                others = plan.arrange(sketches, list(absent), machine, 0, how.seed)
                head = msgspec.structs.replace(draft, plan=_with_cases(whole, others))
                run = take_all(session, head, folder, began_s, request.first, absent, told)
        return published(run, folder)

    @staticmethod
    def _rehearsed(session: Session, sketch: Sketch, placement: Placement, machine: Machine) -> Sketch:
        """Return a Sketch with what the user's own code decides, rehearsed in its first configuration."""
        if not sketch.own:
            return sketch
        return plan.settled(sketch, session.rehearsed(plan.first_case(sketch, placement, machine), sketch.left_open))


def places(
    words: Sequence[str], found: Inspected, machine: Machine, *, absent_ok: bool
) -> tuple[list[Placement], dict[Placement, str]]:
    """Return the Placements of several words, and of those that are not here the reason, where that is allowed.

    Raises UsageError as `plan.place` does where it is not, and where none of them is here.
    """
    each = [plan.placed(word, found, machine) for word in words]
    here = [placement for placement, why_not in each if why_not is None]
    if not absent_ok or not here:
        here = [plan.place(word, found, machine) for word in words]
    return here, {placement: why_not for placement, why_not in each if why_not is not None}


def _with_cases(whole: Plan, others: Plan) -> Plan:
    """Return a Plan that also names the Cases of another one, of which no trial is taken."""
    known = {case.case_id for case in whole.cases}  # which card of several equal ones it is, is no part of a Case
    more = tuple(case for case in others.cases if case.case_id not in known)
    return msgspec.structs.replace(whole, cases=(*whole.cases, *more))
