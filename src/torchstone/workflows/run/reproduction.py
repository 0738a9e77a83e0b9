"""A stored run measured again on this machine by the same plan."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import msgspec

from torchstone.config.recipe_files import recipe_digest
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Workload
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import SEARCH, Procedure
from torchstone.core.schema.ranks import NODES, WORLD_SIZE, most_nodes, widest
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import Head, Plan, Run, Slot, is_imported
from torchstone.core.schema.trial import Status, replicates
from torchstone.execution import machine_facts
from torchstone.execution.controller.active_run import RESUMED, ActiveRun, finish, missing, take_all
from torchstone.execution.controller.device_lock import SHARE, WhenBusy, held
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.machine_facts import of_devices, of_host
from torchstone.execution.plan import sketch
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins import registry
from torchstone.storage.measured import usual_spread
from torchstone.storage.record_writer import RecordWriter
from torchstone.workflows.run.planned_run import Results, begin_run, places, published, table_path

_ARGUMENT = "argument_"  # of the user's own function, as its source `py` has them among what is fixed


class Rechecked(msgspec.Struct, frozen=True):
    """A record's workloads looked at now: what has changed of them, and a Case of each that is the user's own code.

    `code`: SHA-256 of the user's own model files as they are now, by what the model is called.
    """

    changes: tuple[str, ...]
    own: tuple[Case, ...]
    code: dict[str, str]


def requested_cases(head: Head) -> Sequence[Case]:
    """Return the Cases that were asked for. Those that a search added are of the same workload, or of its parts."""
    return head.plan.cases if head.tune is None else (head.tune.base,)


def nodes_for(head: Head) -> int:
    """Return on how many nodes of an allocation the largest Case of a run is, or may be."""
    searched = [{NODES: value} for value in head.tune.axes.get(NODES, ())] if head.tune is not None else []
    return most_nodes((*(case.configuration for case in requested_cases(head)), *searched))


def workloads(cases: Sequence[Case]) -> list[Workload]:
    """Return each workload once, in the order of the Cases."""
    found: list[Workload] = []
    for case in cases:
        if case.workload not in found:
            found.append(case.workload)
    return found


def recheck(head: Head, cases: Sequence[Case]) -> Rechecked:
    """Look whether models, data and code of these Cases of a run are what they were.

    Raises UsageError for a run that was measured in the user's own program: nothing else can measure it.
    """
    every = workloads(cases)
    for workload in every:
        if workload.model.partition(":")[0] not in registry.names("models"):
            raise UsageError(f"{head.run_id} was measured in your own program: only that program can continue it")
    changes: list[str] = []
    own: list[Case] = []
    code: dict[str, str] = {}
    for workload in every:
        try:
            found = sketch(_request(workload))
        except UsageError as fault:
            changes.append(str(fault))
            continue
        now, then = dict(found.workload.fixed), dict(workload.fixed)
        changes += [
            f"{workload.model}, {workload.data}: {name} was {then.get(name)}, is {now.get(name)}"
            for name in sorted(now.keys() | then.keys())
            if now.get(name) != then.get(name)
        ]
        if head.code.get(workload.model, found.code_sha256) != found.code_sha256:
            changes.append(f"{workload.model}: its file has changed")
        if found.code_sha256 is not None:
            code[workload.model] = found.code_sha256
        if found.own:
            own.append(next(case for case in cases if case.workload == workload))
    return Rechecked(tuple(changes), tuple(own), code)


def _request(workload: Workload) -> WorkloadRequest:
    """Return what the workload was asked for with, as far as it is part of what it is."""
    fixed = workload.fixed
    options: dict[str, Scalar] = {
        name.removeprefix(_ARGUMENT): value for name, value in fixed.items() if name.startswith(_ARGUMENT)
    }
    if (weights := fixed.get("weights")) in ("random", "pretrained"):
        options["weights"] = str(weights)
    if isinstance(classes := fixed.get("classes"), int):
        options["classes"] = classes
    return WorkloadRequest(
        str(workload.task), workload.model, workload.data, options, data_options=workload.data_options
    )


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
            with begin_run(
                session,
                machine,
                held,
                head.name,
                command,
                self._busy,
                code=self._found.code,
                usual=usual_spread(folder, machine),
            ) as (draft, waited_s):
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
            if so_far.end is not None and so_far.end.status == "done" and not any(missing(so_far)):
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
            models = [workload.model for workload in workloads(requested_cases(head))]
            session = Session(how, models, self._watcher, nodes=nodes_for(head))
            run = self._measure(writer, so_far, session, own)
        return published(run, self._folder)

    def _measure(self, writer: RecordWriter, so_far: Run, session: Session, own: Sequence[Case]) -> Run:
        head = so_far.head
        here = [head.plan.cases[place] for place in head.measurable]
        placements = list(
            dict.fromkeys(case.placement for case in (here if head.tune is None else requested_cases(head)))
        )
        with session:
            machine, _ = session.inspect()
            self._changes += of_devices(head.machine, machine, placements)
            self._insist(head, "was started with other devices or libraries")
            searched = [{WORLD_SIZE: n} for n in head.tune.axes.get(WORLD_SIZE, ())] if head.tune is not None else []
            wanted = [*(case.configuration for case in requested_cases(head)), *searched]
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
        found = recheck(head, requested_cases(head))
        self._changes += _change_of(head.source.word, head.source.sha256) if head.source is not None else []
        self._changes += found.changes
        return found.own


def _change_of(word: str, sha256: str) -> list[str]:
    try:
        return [] if recipe_digest(word) == sha256 else [f"{word} has changed"]
    except UsageError as fault:
        return [f"its file is missing ({fault})"]
