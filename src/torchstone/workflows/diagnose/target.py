"""What is diagnosed: one Case of a stored run, or the one that a recipe or flags ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from torchstone.analysis.advice.choices import choice_of, recommended
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.page_locking import notes
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Source
from torchstone.core.schema.trial import replicates
from torchstone.execution import machine_facts, plan
from torchstone.execution.machine_facts import of_devices, of_host
from torchstone.plugins import registry
from torchstone.plugins.model_choice import card_of

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.storage.query import Entry

PREFIX = "diagnose-"  # of the name of a run that a diagnosis records
_WINDOW_S, _WARM_UP_S = 1.0, 0.5
_ARGUMENT = "argument_"  # of the user's function, in what is fixed of a workload
_OWN_PROGRAM = Statement("own_program")


class Target(msgspec.Struct, frozen=True):
    """One thing to diagnose. Of a request: `sketch` and `device`; of a stored run: `case` and `run`.

    `elsewhere`: why a stored run's Case is not measured again here. `edited`: what is no longer as it was recorded.
    """

    name: str
    procedure: Procedure
    case: Case | None = None
    run: RunSummary | None = None
    sketch: plan.Sketch | None = None
    device: str = "auto"
    source: Source | None = None
    code: Mapping[str, str] = {}
    elsewhere: Statement | None = None
    edited: Statement | None = None
    own: bool = False

    @property
    def left_open(self) -> tuple[str, ...]:
        """Axes that the data of the user's own code decides; of a stored run all are decided."""
        return self.sketch.left_open if self.sketch is not None else ()

    @property
    def model(self) -> str:
        """What the template is to import for."""
        workload = self.case.workload if self.case is not None else self.sketch.workload if self.sketch else None
        return workload.model if workload is not None else ""

    def case_on(self, machine: Machine, found: Inspected) -> Case:
        """Return the Case on this machine. Raises UsageError where its device is not here."""
        if self.case is not None:
            return _throughput_only(self.case)
        placement = plan.place(self.device, found, machine)
        if self.sketch is None:
            raise UsageError(f"{self.name}: nothing to diagnose")
        return _throughput_only(plan.first_case(self.sketch, placement, machine))

    def notes(self, placement: Placement) -> list[Finding]:
        """Return what is to be said of settings that have no effect on that device."""
        return notes([self.sketch.configurations], [placement]) if self.sketch is not None else []

    def moved(self, machine: Machine) -> list[str]:
        """Return what of devices and software is not as it was when the run was recorded."""
        if self.run is None or self.case is None:
            return []
        return of_devices(self.run.machine, machine, [self.case.placement])


def of_run(entry: Entry, summary: RunSummary, which: str | None) -> Target:
    """Return the Case of a stored run: the one whose id begins with `which`, else the best that trains."""
    chosen = chosen_case(summary, which)
    case = Case(chosen.workload, chosen.configuration, chosen.placement)
    head, model = entry.head, chosen.workload.model
    scheme = model.partition(":")[0]
    elsewhere: Statement | None = None
    if scheme not in registry.names("models"):
        elsewhere = _OWN_PROGRAM
    elif changes := of_host(head.machine, machine_facts.host(), machine_facts.settings()):
        elsewhere = Statement("another_machine", {"changes": tuple(changes)})
    edited = _edited(chosen, head.code) if elsewhere is None else None
    return Target(
        name=summary.name.removeprefix(PREFIX), edited=edited, procedure=short(head.procedure), case=case, run=summary,
        source=head.source,
        code=head.code, elsewhere=elsewhere, own=scheme == "py" or chosen.workload.data.partition(":")[2] != "",
    )  # fmt: skip


def of_own_program(summary: RunSummary) -> Target:
    """Return the best Case of a run that was measured in the user's own process, which alone can measure it again."""
    chosen = chosen_case(summary, None)
    case = Case(chosen.workload, chosen.configuration, chosen.placement)
    return Target(name=summary.name, procedure=summary.procedure, case=case, run=summary, elsewhere=_OWN_PROGRAM)


def of_request(request: RunRequest) -> Target:
    """Return the one Case that a request asks for. Raises UsageError where it asks for several."""
    workload = one_workload(request)
    # Why a task is slow on real data may be their loader, whichever task it is.
    sketch = plan.sketch(msgspec.structs.replace(workload.excluding(request.exclude), fed=True))
    if len(sketch.configurations) != 1 or "," in request.device:
        raise UsageError(f"{request.name} has {len(sketch.configurations)} cases")
    code = {sketch.workload.model: sketch.code_sha256} if sketch.code_sha256 is not None else {}
    return Target(
        name=request.name or "diagnose", procedure=short(request.procedure), sketch=sketch, device=request.device,
        source=request.source, code=code, own=sketch.own,
    )  # fmt: skip


def asks_for_one(request: RunRequest) -> bool:
    """Say whether a request has one Case: it needs no run of its own before it is diagnosed."""
    sketch = plan.sketch(one_workload(request).excluding(request.exclude))
    return len(sketch.configurations) == 1 and "," not in request.device


def one_workload(request: RunRequest) -> WorkloadRequest:
    """Return the one workload there is, or the one that trains. Raises UsageError naming them."""
    training = [w for w in request.workloads if w.task == Task.TRAIN]
    found = list(request.workloads) if len(request.workloads) == 1 else training
    if len(found) != 1:
        known = ", ".join(f"{w.task} {w.model}" for w in request.workloads)
        raise UsageError(f"diagnose takes one workload, this has several ({known}): choose with --task")
    if found[0].task == Task.LOAD:
        raise UsageError("task load has no step to diagnose: give the training that uses the loader")
    if found[0].task == Task.LOADGEN:
        raise UsageError("task loadgen has no step to diagnose: give task infer")
    return found[0]


def short(how: Procedure) -> Procedure:
    """Return a Procedure of short trials with the seed, isolation, heap and settings of a recorded one."""
    return msgspec.structs.replace(
        how, trials=1, budget_s=min(how.budget_s, _WINDOW_S), warmup_budget_s=min(how.warmup_budget_s, _WARM_UP_S),
        iterations=None, epochs=None, fit=None,
        profile=False, nvtx=False, time_limit_s=None, phases=True, count_flops=True, warmup=None,
        isolation="auto" if how.isolation == "inline" else how.isolation,
    )  # fmt: skip


def _edited(case: CaseSummary, code: Mapping[str, str]) -> Statement | None:
    """Return what is said of a model whose file is not as it was. Raises UsageError where it is gone."""
    work = case.workload
    options = {name.removeprefix(_ARGUMENT): v for name, v in work.fixed.items() if name.startswith(_ARGUMENT)}
    card = card_of(work.model, options)
    if code.get(work.model, card.code_sha256) == card.code_sha256:
        return None
    return Statement("edited", {"model": work.model})


def _throughput_only(case: Case) -> Case:
    """Return the Case without its latency window: causes are looked for in steps issued back to back."""
    if case.configuration.get("mode") != "both":
        return case
    return msgspec.structs.replace(case, configuration={**case.configuration, "mode": "throughput"})


def chosen_case(summary: RunSummary, which: str | None) -> CaseSummary:
    """Return the Case whose id begins with `which`, else the best that trains. Raises UsageError otherwise."""
    cases = [case for case in summary.cases if case.workload.task != Task.LOAD]
    if not cases:
        raise UsageError(f"{summary.run_id} has no case with a step: task load has none")
    if which is not None:
        found = [case for case in cases if case.case_id.startswith(which)]
        if len(found) != 1:
            known = ", ".join(case.case_id for case in cases[:8])
            raise UsageError(f"--case {which} matches {len(found)} cases of {summary.run_id}; known: {known}")
        return found[0]
    if isinstance(summary.answer, TuneResult):
        present = summary.answer.present or summary.answer.recommended
        return next((case for case in cases if case.case_id == present.case_id), cases[0])
    if not any(replicates(case.trials) for case in cases):
        return cases[0]  # the record of a diagnosis: it began with what was diagnosed
    training = [case for case in cases if case.workload.task == Task.TRAIN] or cases
    workloads = list(dict.fromkeys(str(case.workload.model) for case in training))
    if len(workloads) > 1:
        known = ", ".join(f"{case.case_id} ({case.workload.model})" for case in training[:6])
        raise UsageError(f"{summary.run_id} measured several models: choose one with --case: {known}")
    choices = {case.case_id: choice_of(case, summary.machine, ()) for case in training}
    best = recommended(list(choices.values()), InRounds(training))
    return next((case for case in training if best is not None and case.case_id == best.case_id), training[0])
