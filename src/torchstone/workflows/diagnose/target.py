"""What is diagnosed: one Case of a stored run, or the one that a recipe or flags ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Protocol

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.choices import choice_of, recommended
from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.advice.rules import Setting
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.fingerprints import fingerprint_of, first_differing, repeats
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.comparison import Comparison
from torchstone.core.schema.diagnosis import (
    BROKEN_LOSS,
    OUT_OF_MEMORY,
    SAME_LOSS,
    Cause,
    CauseKind,
    TriedRemedy,
    WhatIf,
)
from torchstone.core.schema.estimate import Estimate, Finding
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.metric import memory_figures, peak_memory
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import notes
from torchstone.core.schema.run import RequestSource
from torchstone.core.schema.trial import Outcome, Status, Trial, replicates
from torchstone.core.stats.student import from_log
from torchstone.execution import machine_facts, plan
from torchstone.execution.machine_facts import of_devices, of_host
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.plugins import registry
from torchstone.plugins.choices import card_of
from torchstone.workflows.diagnose.live_comparer import FEWEST, with_settings

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.storage.query import Entry

PREFIX = "diagnose-"  # of the name of a run that a diagnosis records
_WINDOW_S, _WARM_UP_S = 1.0, 0.5
_ARGUMENT = "argument_"  # of the user's function, in what is fixed of a workload
_OWN_PROGRAM = Statement("own_program")


class DiagnosisTarget(msgspec.Struct, frozen=True):
    """One thing to diagnose. Of a request: `sketch` and `device`; of a stored run: `case` and `run`.

    `elsewhere`: why a stored run's Case is not measured again here. `edited`: what is no longer as it was recorded.
    """

    name: str
    procedure: Procedure
    case: Case | None = None
    run: RunSummary | None = None
    sketch: plan.Sketch | None = None
    device: str = "auto"
    source: RequestSource | None = None
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

    def case_on(self, machine: Machine, inspected: Inspected) -> Case:
        """Return the Case on this machine. Raises UsageError where its device is not here."""
        if self.case is not None:
            return _throughput_only(self.case)
        placement = plan.place(self.device, inspected, machine)
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


def of_run(entry: Entry, summary: RunSummary, which: str | None, *, measured_now: bool = False) -> DiagnosisTarget:
    """Return the Case of a stored run: the one whose id begins with `which`, else the best that trains.

    `measured_now`: for this diagnosis; where other programs hid its causes, they would hide them again.
    """
    chosen = chosen_case(summary, which)
    case = Case(chosen.workload, chosen.configuration, chosen.placement)
    head, model = entry.head, chosen.workload.model
    scheme = model.partition(":")[0]
    elsewhere: Statement | None = None
    if scheme not in registry.names("models"):
        elsewhere = _OWN_PROGRAM
    elif changes := of_host(head.machine, machine_facts.host(), machine_facts.settings()):
        elsewhere = Statement("another_machine", {"changes": tuple(changes)})
    elif measured_now and (busy := rules.recorded_evidence(summary, chosen).disturbance) and busy.hides_causes:
        elsewhere = Statement("busy_machine")
    edited = _edited(chosen, head.code) if elsewhere is None else None
    return DiagnosisTarget(
        name=summary.name.removeprefix(PREFIX),
        edited=edited,
        procedure=brief_procedure(head.procedure),
        case=case,
        run=summary,
        source=head.source,
        code=head.code,
        elsewhere=elsewhere,
        own=scheme == "py" or chosen.workload.data.partition(":")[2] != "",
    )


def of_own_program(summary: RunSummary) -> DiagnosisTarget:
    """Return the best Case of a run that was measured in the user's own process, which alone can measure it again."""
    chosen = chosen_case(summary, None)
    case = Case(chosen.workload, chosen.configuration, chosen.placement)
    return DiagnosisTarget(
        name=summary.name, procedure=summary.procedure, case=case, run=summary, elsewhere=_OWN_PROGRAM
    )


def of_request(request: RunRequest) -> DiagnosisTarget:
    """Return the one Case that a request asks for. Raises UsageError where it asks for several."""
    workload = one_workload(request)
    # Why a task is slow on real data may be their loader, whichever task it is.
    sketch = plan.sketch(msgspec.structs.replace(workload.excluding(request.exclude), fed=True))
    if len(sketch.configurations) != 1 or "," in request.device:
        raise UsageError(f"{request.name} has {len(sketch.configurations)} cases")
    code = {sketch.workload.model: sketch.code_sha256} if sketch.code_sha256 is not None else {}
    return DiagnosisTarget(
        name=request.name or "diagnose",
        procedure=brief_procedure(request.procedure),
        sketch=sketch,
        device=request.device,
        source=request.source,
        code=code,
        own=sketch.own,
    )


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


def brief_procedure(how: Procedure) -> Procedure:
    """Return a Procedure of short trials with the seed, isolation, heap and settings of a recorded one."""
    return msgspec.structs.replace(
        how,
        trials=1,
        budget_s=min(how.budget_s, _WINDOW_S),
        warmup_budget_s=min(how.warmup_budget_s, _WARM_UP_S),
        iterations=None,
        epochs=None,
        fit=None,
        profile=False,
        nvtx=False,
        time_limit_s=None,
        phases=True,
        count_flops=True,
        warmup=None,
        isolation="auto" if how.isolation == "inline" else how.isolation,
    )


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


_EXPERIMENT_S = 15.0  # what an experiment takes at least: templates, and six pairs of processes
_LONG_LOOK_S = 5.0  # two short trials
_LEAST_S = 5.0  # left of the budget: with less nothing is begun
_COMPILING_S = 60.0
_HOPELESS = 0.9  # of the present rate, in one short trial
_SLOW_TO_START = ("compile",)
# The same ratio, measured on another day, comes out differently by more than either interval says (docs/diagnosing.md).
_OCCASION = 0.015


class Comparer(Protocol):
    """Compares a Case with the present one, live. `heap`: of the candidate's process."""

    def __call__(self, case: Case, heap: str | None, budget_s: float) -> tuple[Comparison, Sequence[Trial]]:
        """Return the ratio of the times of an item, candidate ÷ present, and the trials, whose facts name the side."""


class RemedyTrials:
    """Tries what-ifs against one Case. `probe` takes one short trial of a Case."""

    def __init__(
        self,
        case: Case,
        probe: Callable[[Case], Trial],
        compare_live: Comparer,
        budget_s: float,
        say: Callable[[str], None],
        clock: Clock = system_clock,
    ) -> None:
        self._case, self._probe, self._compare_live, self._say, self._clock = case, probe, compare_live, say, clock
        self._budget_s = budget_s
        self._ends_s = clock() + budget_s
        self._look_s = 0.0  # what the last first look took: where a process is slow to start, two trials take long
        self._is_hopeful = False  # some remedy is worth comparing
        self._is_first = True  # experiment: what time is left is enough for it; others begin where they can end in time

    def all(self, causes: Sequence[Cause]) -> list[TriedRemedy]:
        """Try what could help by the causes, in order of promise; what is not tried says why."""
        asked = list(self._what_ifs(causes))
        screened = [(cause, what_if, *self._screen(what_if)) for cause, what_if in asked]
        hopeful = [(c, w, rate) for c, w, rate, why in screened if why is None]
        # Causes keep their order; a ceiling comes after what can be taken, and of the same axes the fastest is enough.
        hopeful.sort(key=lambda one: (list(causes).index(one[0]), one[1].ceiling, -(one[2] or math.inf)))
        finalists: dict[tuple[str | None, ...], tuple[Cause, WhatIf, float | None]] = {}
        for one in hopeful:
            finalists.setdefault((*one[1].settings, one[1].heap), one)
        done: dict[str, TriedRemedy] = {}
        for number, (cause, what_if, rate) in enumerate(finalists.values()):
            together = sum(one.helps and not one.what_if.ceiling for one in done.values()) > 1  # its time is kept
            left = len(finalists) - number + (len(finalists) > 1)
            found = self._compare(cause.id, what_if, left, 1 + together)
            done[what_if.name] = msgspec.structs.replace(found, first_look=rate)
        return [
            done.get(what_if.name) or TriedRemedy(cause.id, what_if, message=why or _looked(rate), first_look=rate)
            for cause, what_if, rate, why in screened
        ]

    def combined(self, tried: Sequence[TriedRemedy]) -> TriedRemedy | None:
        """Return all that helped, together: measured once more where there are several, else the one."""
        helped = sorted(
            (one for one in tried if one.helps and not one.what_if.ceiling),
            key=lambda one: -_gained(one),
        )
        settings: dict[str, Scalar] = {}
        heap: str | None = None
        taken: list[TriedRemedy] = []
        for one in helped:
            if not settings.keys() & one.what_if.settings.keys() and (heap is None or one.what_if.heap is None):
                settings.update(one.what_if.settings)
                heap = heap or one.what_if.heap
                taken.append(one)
        if len(taken) < 2:
            return taken[0] if taken else None
        together = self._compare("all", WhatIf(settings, heap))
        return together if together.helps and _gained(together) >= _gained(taken[0]) else taken[0]

    def _what_ifs(self, causes: Sequence[Cause]) -> list[tuple[Cause, WhatIf]]:
        found: dict[str, tuple[Cause, WhatIf]] = {}
        for cause in causes:
            for what_if in cause.what_ifs:
                if what_if.heap is None and with_settings(self._case, what_if.settings) == self._case:
                    continue  # it is so already, or the engine has no such axis
                found.setdefault(what_if.name, (cause, what_if))
        return list(found.values())

    def _screen(self, what_if: WhatIf) -> tuple[float | None, Statement | None]:
        """Return (times the present rate in one short trial, why it is not tried)."""
        if what_if.heap is not None:
            return None, None
        needed_s = max(_LEAST_S, self._look_s)
        if self._is_hopeful and self._look_s > _LONG_LOOK_S:  # programs start slowly: time to compare one comes first
            needed_s += FEWEST * self._look_s
        if self._left_s() < needed_s:
            return None, self._spent()
        if any(axis in what_if.settings for axis in _SLOW_TO_START):
            if self._budget_s < 2 * _COMPILING_S:
                return None, Statement("compiling_takes_long", {"budget_s": 2 * _COMPILING_S})
            return None, None
        self._say(f"{what_if.name}: a first look")
        began_s = self._clock()
        present, candidate = self._probe(self._case), self._probe(with_settings(self._case, what_if.settings))
        self._look_s = self._clock() - began_s
        if candidate.outcome.status != Status.OK:
            return None, _ended(candidate.outcome)
        rates = [figures(trial).values.get("throughput") for trial in (present, candidate)]
        if not rates[0] or not rates[1]:
            return None, None
        times = rates[1] / rates[0]
        if times < _HOPELESS:
            return times, Statement("slower_at_first_look", {"times": times})
        self._is_hopeful = True
        return times, None

    def _compare(self, cause: str, what_if: WhatIf, remaining: int = 1, must_fit: int = 1) -> TriedRemedy:
        """Compare it if there is time for so many experiments. `remaining`: how many share what is left."""
        takes_s = max(_EXPERIMENT_S, FEWEST * self._look_s)
        share_s = max(takes_s, self._left_s() / remaining)
        if self._left_s() < (_LEAST_S if self._is_first else must_fit * takes_s):
            return TriedRemedy(cause, what_if, message=self._spent())
        self._is_first = False
        self._say(f"{what_if.name}: live against the present settings")
        comparison, trials = self._compare_live(with_settings(self._case, what_if.settings), what_if.heap, share_s)
        found = TriedRemedy(cause, what_if)
        if comparison.ratio is None:
            return msgspec.structs.replace(found, message=comparison.why or Statement("too_few_pairs"))
        memory_bytes, memory_ratio, loss = effects_of(trials, what_if.settings, self._case.placement.device)
        return msgspec.structs.replace(
            found,
            verdict=comparison.verdict,
            gain=gain_of(comparison.ratio),
            memory_bytes=memory_bytes,
            memory_ratio=memory_ratio,
            loss=loss,
        )

    def _spent(self) -> Statement:
        return Statement("budget_spent", {"budget_s": self._budget_s})

    def _left_s(self) -> float:
        return self._ends_s - self._clock()


def _gained(tried: TriedRemedy) -> float:
    return tried.gain.value if tried.gain is not None else 0.0


def _looked(rate: float | None) -> Statement:
    """Return what is said of settings of the same axes as others that looked better."""
    return Statement("less_than_another_value", {"times": rate})


def _ended(outcome: Outcome) -> Statement:
    return Statement("ended", {"status": str(outcome.status), "message": outcome.message})


def gain_of(ratio: Estimate) -> Estimate:
    """Return how many times as fast, from the ratio of times, with the interval that a later measurement lies in.

    A later measurement has errors of its own, so the experiment's variance counts twice (an interval of 95 % holds the
    mean of a replication five times in six: Cumming, Williams & Fidler, Understanding Statistics 3, 2004); and ratios
    differ from occasion to occasion. Variances of logarithms add. What is added for that has the width of 95 %, so the
    whole is stated at that level, though the experiment's own is higher.
    """
    if ratio.low is None or ratio.high is None:
        return msgspec.structs.replace(ratio, value=1.0 / ratio.value)
    log, more = math.log(ratio.value), 1.96 * _OCCASION
    low = log - math.hypot(math.sqrt(2.0) * (log - math.log(ratio.low)), more)
    high = log + math.hypot(math.sqrt(2.0) * (math.log(ratio.high) - log), more)
    return msgspec.structs.replace(
        ratio,
        value=from_log(-log),
        low=from_log(-high),
        high=from_log(-low),
        level=min(0.95, ratio.level),
        method=f"{ratio.method}, for a replication, and 1.5 % between occasions",
    )


# ── what else other settings do ───────────────────────────────────────────────────────────────────────────────


def effects_of(
    trials: Sequence[Trial], settings: Mapping[str, Scalar], device: str
) -> tuple[float | None, float | None, Statement | None]:
    """Return (peak memory of side B in bytes, times that of A, what it does to the loss) from an experiment's trials.

    `device`: the kind (cpu, cuda, …) that they ran on.
    """
    good = [trial for trial in trials if trial.outcome.status == Status.OK]
    sides = [[trial for trial in good if trial.facts.side == side] for side in "AB"]
    peaks = [_peak(side, memory_figures(device)) for side in sides]
    ratio = peaks[1] / peaks[0] if peaks[0] and peaks[1] else None
    return peaks[1], ratio, _loss(sides, settings)


def _peak(trials: Sequence[Trial], names: Sequence[str]) -> float | None:
    for name in names:
        values = [found[name] for trial in trials if name in (found := figures(trial).values)]
        if values:
            return median(values)
    return None


def _loss(sides: Sequence[Sequence[Trial]], settings: Mapping[str, Scalar]) -> Statement | None:
    changing = tuple(axis for axis in settings if axis in AXES and AXES[axis].changes_result)
    prints = [fingerprint_of(side) for side in sides]
    broken = [not all(map(math.isfinite, found)) for found in prints]
    if any(broken):  # it comes before all else: who computes no numbers is no faster
        return Statement("loss_broken_before" if broken[0] else BROKEN_LOSS)
    if any(axis in ("batch_size", "grad_accumulation") for axis in changing):
        return Statement("loss_of_another_result", {"axes": changing})
    if "feed" in settings:
        return Statement("loss_of_other_batches")
    pairs = list(zip(*prints, strict=False))
    if not pairs or not repeats(*sides):
        return None
    if first_differing(*prints) is None:
        return Statement(SAME_LOSS)
    apart = max(abs(b - a) / max(abs(a), 1e-12) for a, b in pairs)
    return Statement("loss_apart", {"share": apart, "steps": len(pairs)})


# ── a Case that runs out of memory ────────────────────────────────────────────────────────────────────────────


def memory_cause(case: Case, trial: Trial) -> Cause:
    """Return the cause, with the rungs of the ladder as what-ifs: what costs least first."""
    rule, known = rules.FULL_MEMORY, Setting(case.configuration, trains=case.workload.task == Task.TRAIN)
    return Cause(
        OUT_OF_MEMORY,
        CauseKind.MEMORY,
        Statement(OUT_OF_MEMORY),
        1.0,
        (_ended(trial.outcome),),
        usual=rule.causes(known),
        remedies=rule.remedies(known),
        what_ifs=tuple(_rungs(case)),
    )


def _rungs(case: Case) -> Iterator[WhatIf]:
    configuration, size = case.configuration, case.configuration.get("batch_size")
    accumulation = configuration.get("grad_accumulation")
    if isinstance(size, int) and size > 1:
        halved: dict[str, Scalar] = {"batch_size": size // 2}
        if isinstance(accumulation, int):
            halved["grad_accumulation"] = 2 * accumulation
        yield WhatIf(halved)
    if configuration.get("precision") in ("fp32", "tf32"):
        yield WhatIf({"precision": "bf16"})
    if case.workload.task == Task.TRAIN and configuration.get("gradient_checkpointing") is False:
        yield WhatIf({"gradient_checkpointing": True})
    if isinstance(size, int) and size > 8:
        yield WhatIf({"batch_size": size // 8})


def what_fits(case: Case, cause: Cause, probe: Callable[[Case], Trial]) -> list[TriedRemedy]:
    """Try each rung once, and say whether it fits and how fast it is: there is no present rate to compare with."""
    return [_fits(case, cause, what_if, probe) for what_if in cause.what_ifs]


def _fits(case: Case, cause: Cause, what_if: WhatIf, probe: Callable[[Case], Trial]) -> TriedRemedy:
    trial = probe(with_settings(case, what_if.settings))
    if trial.outcome.status != Status.OK:
        return TriedRemedy(cause.id, what_if, message=_ended(trial.outcome))
    found = figures(trial).values
    peak = peak_memory(found, case.placement.device)
    fits = Statement("fits", {"rate": found.get("throughput")})
    return TriedRemedy(cause.id, what_if, memory_bytes=peak, message=fits)
