"""Diagnosing somebody's own program: `torchstone diagnose -- python train.py`.

Three fresh processes of the command tell the shares of its phases with their intervals; the first is sampled after its
window, line by line. What could help is set by the hooks (processes that load, batch size, threads, a fused optimizer)
or the environment (heap), and measured in pairs of short trials against the command as it is. What hooks cannot set is
advised and called not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from torchstone.analysis.advice.causes import causes_of, ranked_causes, shown_path
from torchstone.analysis.advice.rules import Evidence
from torchstone.core import units
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.advice import Advice, Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.comparison import Comparison
from torchstone.core.schema.diagnosis import Cause, Diagnosis, TriedRemedy
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.metric import BACKWARD, DATA, FORWARD, OPTIMIZER, REST, TRANSFER
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import HostProfile, Purpose, Status, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.execution import plan
from torchstone.execution.controller.active_run import ActiveRun, conclude, record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Watcher
from torchstone.execution.controller.session import Session
from torchstone.workflows.diagnose.live_comparer import MARGIN, PairedTrials, ProbeWatcher
from torchstone.workflows.diagnose.measured_diagnosis import cores_of_process
from torchstone.workflows.diagnose.target import PREFIX, RemedyTrials
from torchstone.workflows.run.planned_run import (
    ProgramRequest,
    Results,
    begin_run,
    check,
    configurations,
    name_of,
    placement_of,
    published,
    tried,
    workload_of,
)

_PROCESSES = 3  # of the command as it is, whose spread is the interval
_WINDOW_S, _WARM_UP_S = 1.0, 0.5
_LARGER = 4  # times the batch
_FED = 0.05  # of the step spent on waiting for data: from here on the loader is looked at on its own
PHASES_OF = {
    "loader": (DATA,),
    "loader_computes": (DATA,),
    "loader_waits": (DATA,),
    "optimizer": (OPTIMIZER,),
    "outside": (REST,),
    "computing": (FORWARD, BACKWARD),
    "transfer": (TRANSFER,),
}


class ProgramDiagnosis:
    """One `torchstone diagnose -- COMMAND`. `left_s`, `say`, `suspects`: as in DiagnosisCampaign."""

    def __init__(
        self,
        request: ProgramRequest,
        left_s: Callable[[], float],
        watcher: Watcher,
        say: Callable[[str], None],
        suspects: Callable[[Cause], None],
        busy: WhenBusy = SHARE,
    ) -> None:
        """Raises UsageError where an axis has several values."""
        check(request)
        if several := [name for name, values in request.axes.items() if len(values) > 1]:
            raise UsageError(f"--axis {several[0]}: diagnose takes one value; torchstone run compares several")
        how = msgspec.structs.replace(
            request.procedure,
            trials=1,
            budget_s=_WINDOW_S,
            iterations=None,
            warmup_budget_s=min(request.procedure.warmup_budget_s, _WARM_UP_S),
        )
        self._request = msgspec.structs.replace(request, procedure=how)
        self._left_s, self._listening = left_s, ProbeWatcher(watcher)
        self._say, self._suspects, self._busy = say, suspects, busy
        self._numbers: dict[str, int] = {}
        self._failed: Trial | None = None
        self._evidence: Evidence | None = None
        self._causes: tuple[Cause, ...] = ()
        self._tried: tuple[TriedRemedy, ...] = ()
        self._applied: TriedRemedy | None = None

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Diagnose, and record what was measured, and the diagnosis, into `folder`.

        Raises UsageError where the command fails before its second step, TorchstoneError where it fails later.
        """
        request = self._request
        with Session(request.procedure, (), self._listening) as session:
            machine, found = session.inspect()
            placement = plan.place(request.device, found, machine)
            name = f"{PREFIX}{name_of(request)}"
            with begin_run(session, machine, [placement], name, command, self._busy) as (head, _):
                point = next(configurations(request))
                facts = tried(session, Case(workload_of(request), point, placement))
                case = Case(workload_of(request, Task(str(facts.task))), point, placement_of(facts, placement, machine))
                run = record_run(
                    session,
                    head,
                    folder,
                    lambda open_run, _: conclude(
                        open_run, lambda: self._work(case, open_run, machine), lambda so_far: self._answer(case, so_far)
                    ),
                )
        results = published(run, folder)
        if self._failed is not None:
            outcome = self._failed.outcome
            raise TorchstoneError(
                f"the program failed ({outcome.status}: {outcome.message}); nothing to diagnose. "
                f"See torchstone show {head.run_id} --full"
            )
        return results

    def _work(self, case: Case, open_run: ActiveRun, machine: Machine) -> None:
        take = lambda one, host_profile=False: self._take(open_run, one, host_profile=host_profile)
        self._say(f"the program as it is, {_PROCESSES} times, and where the host's time goes")
        trials = [take(case, number == 0) for number in range(_PROCESSES)]
        self._failed = next((trial for trial in trials if trial.outcome.status != Status.OK), None)
        if self._failed is not None:
            return
        present = described(case, trials[0].facts)
        evidence = evidence_of(present, trials, self._listening.profile(), machine)
        own = lambda one: undescribed(one, present, case)
        if evidence.workers and evidence.share(DATA) > _FED:
            self._say("the loader in the program's own process")
            alone = take(own(_with(present, num_workers=0)), True)
            evidence = with_loader(evidence, alone, self._listening.profile())
        elif evidence.share(DATA) > _FED:
            evidence = with_loader(evidence, trials[0], evidence.look)
        if not evidence.fixes("batch_size"):
            size = _LARGER * evidence.batch_size
            self._say(f"the program with batch_size {size}")
            evidence = with_larger(evidence, take(own(_with(present, batch_size=size))), size)
        self._evidence = evidence
        if evidence.disturbance is not None and evidence.disturbance.hides_causes:
            self._causes = causes_of(evidence)
            return
        self._causes = tuple(_with_interval(cause, trials, case.workload.item) for cause in causes_of(evidence))
        if self._causes:
            self._suspects(self._causes[0])
        probe = lambda one: take(own(one))
        paired = PairedTrials(present, probe, lambda: None, MARGIN, open_run.session.procedure.seed)

        def comparer(case: Case, heap: str | None, budget_s: float) -> tuple[Comparison, Sequence[Trial]]:
            return paired(case if heap is None else _with(case, heap=heap), None, budget_s)

        trying = RemedyTrials(present, probe, comparer, self._left_s(), self._say)
        self._tried = tuple(trying.all(self._causes))
        self._causes = ranked_causes(self._causes, self._tried)
        self._applied = trying.combined(self._tried)

    def _take(self, open_run: ActiveRun, case: Case, *, host_profile: bool) -> Trial:
        open_run.add(case)
        number = self._numbers[case.case_id] = self._numbers.get(case.case_id, -1) + 1
        return open_run.take(case, number, Purpose.PROBE, host_profile=host_profile)

    def _answer(self, case: Case, run: Run) -> Diagnosis | None:
        e = self._evidence
        if e is None:
            return None
        return Diagnosis(
            run.head.run_id,
            name_of(self._request),
            case,
            e.figures.get("throughput"),
            e.step_s,
            self._causes,
            tried=self._tried,
            applied=self._applied,
            pattern=tuple(_notes(e)),
            disturbance=e.disturbance,
        )


# ── a program's settings: as it has them, and others ────────────────────────────────────────────────────────


def described(case: Case, facts: Facts) -> Case:
    """Return the Case with the settings that a program was seen to have, and that hooks can change."""
    seen: dict[str, Scalar] = {"threads": facts.threads_in_effect}
    if facts.loader_pinned is not None:
        seen.update(num_workers=facts.loader_workers, pin_memory=facts.loader_pinned)
    if facts.loader_batch_size is not None:
        seen["batch_size"] = facts.loader_batch_size
    if facts.fused_optimizer is not None:
        seen["fused"] = "on" if facts.fused_optimizer else "off"
    return msgspec.structs.replace(case, configuration={**seen, **case.configuration})


def undescribed(wanted: Case, present: Case, case: Case) -> Case:
    """Return the Case to measure: the command as it is, and what the hooks are to set otherwise."""
    others = {name: v for name, v in wanted.configuration.items() if present.configuration.get(name) != v}
    workload = case.workload
    if "batch_size" in others and "batch_size" not in case.configuration:  # that of the training's loader alone
        fixed = {**workload.fixed, "batch_size": present.configuration["batch_size"]}
        workload = msgspec.structs.replace(workload, fixed=fixed)
    return Case(workload, {**case.configuration, **others}, case.placement)


def _with(case: Case, **settings: Scalar) -> Case:
    return msgspec.structs.replace(case, configuration={**case.configuration, **settings})


# ── evidence ────────────────────────────────────────────────────────────────────────────────────────────────


def evidence_of(present: Case, trials: Sequence[Trial], look: HostProfile | None, machine: Machine) -> Evidence:
    """Return the Evidence of some trials of a program as it is: of the undisturbed ones, where these are most.

    The rate and the step's time are estimated as they are in every table; each other figure is the trials' median.
    """
    quiet = [trial for trial in trials if not trial.disturbed]
    is_quiet = 2 * len(quiet) > len(trials)
    found = [figures(trial).values for trial in (quiet if is_quiet else trials)]
    middle = {name: median(values[name] for values in found) for name in found[0] if all(name in v for v in found)}
    for name in middle.keys() & {"throughput", "step_time_mean"}:
        middle[name] = over_trials([values[name] for values in found]).value
    facts, place = trials[0].facts, present.placement
    fixed = tuple(axis for axis in ("batch_size", "num_workers") if axis not in present.configuration)
    if fixed:
        facts = msgspec.structs.replace(facts, own_fixed=fixed, own_why=Statement("no_such_loader"))
    return Evidence(
        present,
        middle,
        facts,
        machine.device(place.device, place.index),
        cores_of_process(),
        "default",
        look=look,
        disturbance=None if is_quiet else next(trial.disturbance for trial in trials if trial.disturbed),
    )


def with_loader(e: Evidence, alone: Trial, look: HostProfile | None) -> Evidence:
    """Add what the loader does in the program's own process, by a trial with no processes that load."""
    loading_s, busy, rate = alone.facts.loading_s, alone.facts.loading_busy, e.figures.get("throughput")
    if alone.outcome.status != Status.OK or look is None or not isinstance(loading_s, float):
        return e
    lines = [line for line in look.lines if line.phase == DATA]
    share = look.phases.get(DATA, 0.0)
    loading = msgspec.structs.replace(
        look,
        step_s=loading_s,
        main_busy=float(busy or 0.0),
        main_queued=None,
        lines=tuple(msgspec.structs.replace(line, share=line.share / share) for line in lines) if share else (),
    )
    device_rate = rate / (1.0 - e.share(DATA)) if rate and e.share(DATA) < 1.0 else None
    size = e.setting("batch_size")
    alone_rate = size / loading_s if isinstance(size, int) else None
    return msgspec.structs.replace(e, loader_look=loading, device_rate=device_rate, loader_alone_rate=alone_rate)


def with_larger(e: Evidence, trial: Trial, size: int) -> Evidence:
    """Add the step of a larger batch, what it waited for data left out; nothing where the program did not take it."""
    found, now = figures(trial).values, e.facts.items_per_step
    items, step_s = trial.facts.items_per_step, found.get("step_time_mean")
    as_asked = isinstance(items, float | int) and isinstance(now, float | int) and items == _LARGER * now
    if trial.outcome.status != Status.OK or step_s is None or not as_asked or e.step_s is None:
        return e
    small_s = e.figures.get("step_time_mean", e.step_s) * (1.0 - e.share(DATA))
    return msgspec.structs.replace(e, larger=(size, step_s - found.get("phase_data_s", 0.0)), small_s=small_s)


def _with_interval(cause: Cause, trials: Sequence[Trial], item: str) -> Cause:
    """Add the share of the cause's phase over the processes, with its interval, and the rate beside it."""
    told = []
    rates = [rate for trial in trials if (rate := figures(trial).values.get("throughput"))]
    if len(rates) == len(trials):
        value, low, high, _ = over_trials(rates)
        if not units.is_wide(value, low, high):
            known: dict[str, Scalar] = {"rate": value, "low": low, "high": high, "trials": len(rates), "item": item}
            told.append(Statement("rate_over_trials", known))
    if phases := PHASES_OF.get(cause.id):
        value, low, high, _ = over_trials([_share(trial, phases) for trial in trials], logs=False)
        if low is not None and high is not None:
            ends: dict[str, Scalar] = {"low": max(0.0, low), "high": min(1.0, high)}
            told.append(Statement("share_over_trials", {"share": value, **ends, "trials": len(trials)}))
    return msgspec.structs.replace(cause, evidence=(*told, *cause.evidence))


def _share(trial: Trial, phases: Sequence[str]) -> float:
    spent = {m.phase: sum(m.values) for m in trial.measurements if m.metric == "phase_time_s"}
    return sum(spent.get(phase, 0.0) for phase in phases) / max(1e-12, sum(spent.values()))


def _notes(e: Evidence) -> Sequence[Advice]:
    """Return the lines of the loop that ask tensors for their values, whatever they cost here."""
    asking = [line for line in e.own_lines if (line.waits_per_step or 0.0) >= 1.0]
    known = (
        {"file": shown_path(line.file), "line": line.line, "times": line.waits_per_step, "code": line.code}
        for line in asking
    )
    places = tuple(Statement("asks_at", one) for one in known)
    return [Advice((Statement("asks_in_loop", {"places": places}),))] if places else []
