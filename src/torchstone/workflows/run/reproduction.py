"""A stored run measured again on this machine by the same plan."""

from __future__ import annotations

import random
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import is_imported
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.ranks import most_nodes, widest
from torchstone.core.schema.run import Plan, Run, Slot
from torchstone.core.schema.trial import Status, replicates
from torchstone.execution.controller.active_run import take_all
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import system_clock
from torchstone.storage.measured import usual_spread
from torchstone.workflows.campaign import begun
from torchstone.workflows.run.planned_run import places
from torchstone.workflows.run.recorded_request import recheck, workloads
from torchstone.workflows.run.results import Results, published

_OWN = "py:"


class Reproduction:
    """One `torchstone reproduce`. Everything that can be wrong is found before anything is measured.

    `code`: the folder that has the user's own code, which the record only names; None: no such code is run. `force`:
    measure even where models, data or code are not those of the record.
    """

    def __init__(
        self, recorded: Run, watcher: Watcher, busy: WhenBusy = SHARE, *, code: Path | None = None, force: bool = False
    ) -> None:
        self._recorded, self._watcher, self._busy = recorded, watcher, busy
        _refuse(recorded)
        self._slots = _slots(recorded)
        cases = _cases(recorded)
        if code is None and (own := sorted({word for one in cases for word in _own_words(one)})):
            raise UsageError(
                f"{recorded.head.run_id} measured code that its record only names: {', '.join(own)}; get its files, "
                "look at them, and name their folder: --code FOLDER"
            )
        self._cases = [_here(case) for case in cases]
        head = msgspec.structs.replace(recorded.head, code={_local(k): v for k, v in recorded.head.code.items()})
        self._found = recheck(head, self._cases)
        if self._found.changes and not force:
            raise UsageError(
                f"{head.run_id} would not measure the same here: {'; '.join(self._found.changes)}; --force measures "
                "nevertheless"
            )

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Measure into `folder`. Raises UsageError where none of the devices is here."""
        began_s = system_clock()
        head, procedure = self._recorded.head, _procedure(self._recorded)
        models = [workload.model for workload in workloads(self._cases)]
        nodes = most_nodes(case.configuration for case in self._cases)
        with Session(procedure, models, self._watcher, nodes=nodes) as session:
            machine, found = session.inspect()
            words = list(dict.fromkeys(str(case.placement) for case in self._cases))
            here, absent = places(words, found, machine, absent_ok=True)
            held = [widest(one, (case.configuration for case in self._cases)) for one in here]
            with begun(
                session, machine, held, head.name, command, self._busy, code=self._found.code,
                usual=usual_spread(folder, machine),
            ) as (draft, waited_s):  # fmt: skip
                session.rehearse([case for case in self._found.own if case.placement not in absent])
                whole = msgspec.structs.replace(draft, plan=self._plan(machine))
                run = take_all(session, whole, folder, began_s + waited_s, (), absent)
        return published(run, folder)

    def _plan(self, machine: Machine) -> Plan:
        here = [machine.device(case.placement.device, case.placement.index) is not None for case in self._cases]
        return Plan(tuple(self._cases), tuple(slot for slot in self._slots if here[slot.case]))


# ── what is measured again ──────────────────────────────────────────────────────────────────────────────────


def _refuse(run: Run) -> None:
    """Raise UsageError for a run that has no plan to repeat."""
    head = run.head
    typed = shlex.join(head.command if head.command[:1] == ("torchstone",) else ("torchstone", *head.command))
    if is_imported(run):
        raise UsageError(f"{head.run_id} was measured by another tool: torchstone cannot repeat it")
    if head.ab is not None:
        raise UsageError(f"{head.run_id} is an A/B comparison, which measures both sides at once; type `{typed}`")
    if head.procedure.fit is not None:
        raise UsageError(f"{head.run_id} is a training to an end; type `{typed}`")
    if not _measured(run):
        raise UsageError(f"{head.run_id} has no successful trial: there is nothing to compare with")


def _measured(run: Run) -> list[Case]:
    """Return the Cases with a successful replicate."""
    good = {trial.case_id for trial in replicates(run.trials) if trial.outcome.status == Status.OK}
    return [case for case in run.head.plan.cases if case.case_id in good]


def _cases(run: Run) -> list[Case]:
    """Return the Cases to measure: those of the plan that had a device; of a search those of its final round."""
    cases = run.head.plan.cases
    return _measured(run) if run.head.tune is not None else [cases[place] for place in run.head.measurable]


def _slots(run: Run) -> list[Slot]:
    """Return the order of the trials: as it was planned; of a final round, its rounds in random order."""
    head = run.head
    if head.tune is None:
        place_of = {place: n for n, place in enumerate(head.measurable)}
        return [Slot(place_of[slot.case], slot.number) for slot in head.plan.slots if slot.case in place_of]
    dice, slots = random.Random(head.procedure.seed), list[Slot]()
    for number in range(_rounds(run)):
        order = list(range(len(_measured(run))))
        dice.shuffle(order)
        slots += [Slot(place, number) for place in order]
    return slots


def _rounds(run: Run) -> int:
    return 1 + max(trial.number for trial in replicates(run.trials) if trial.outcome.status == Status.OK)


def _procedure(run: Run) -> Procedure:
    how = run.head.procedure
    return how if run.head.tune is None else msgspec.structs.replace(how, trials=_rounds(run), within_s=None)


def _own_words(case: Case) -> list[str]:
    """Return the words of a Case that name somebody's own code."""
    return [word for word in (case.workload.model, case.workload.data) if word.startswith(_OWN)]


def _here(case: Case) -> Case:
    """Return a Case with its own code looked for in the working folder, wherever it was on the other machine."""
    workload = case.workload
    moved = msgspec.structs.replace(workload, model=_local(workload.model), data=_local(workload.data))
    return msgspec.structs.replace(case, workload=moved)


def _local(word: str) -> str:
    """Return `py:/far/away/net.py:load` as `py:net.py:load`; a path that is here, and all other words, as they are."""
    scheme, _, rest = word.partition(":")
    file, colon, function = rest.rpartition(":")
    if f"{scheme}:" != _OWN or not file.endswith(".py"):
        return word
    path = PurePath(file)
    if not path.is_absolute() and ".." not in path.parts and Path(file).is_file():
        return word
    return f"{_OWN}{path.name}{colon}{function}"
