"""From a target to a stored diagnosis: measure its parts, rank the causes, try what could help, write it down."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.causes import causes_of, ranked_causes
from torchstone.analysis.advice.choices import choice_of
from torchstone.analysis.advice.curves import (
    advise,
    curve_of,
    phases_s,
    ran_out,
    read_memory,
    read_phases,
    read_single_items,
    read_spread,
    speed_up,
)
from torchstone.analysis.advice.devices import contrasts_with_cpu
from torchstone.analysis.advice.feeding import own_data
from torchstone.analysis.advice.rules import Evidence, recorded_evidence
from torchstone.analysis.roofline import bound_of
from torchstone.analysis.summary import CaseSummary, RunSummary, summarize
from torchstone.config.cli_flags import of_data, workload_flags
from torchstone.config.recipe_files import load_request
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.advice import Advice, Statement
from torchstone.core.schema.axis import AXES, LOADER_AXES, Scalar, scalar_word
from torchstone.core.schema.case import Case
from torchstone.core.schema.diagnosis import Cause, ChecklistItem, Diagnosis, TriedRemedy, WhatIf
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.metric import BACKWARD, DATA, DECODE, FORWARD, PREFILL, peak_memory
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.execution.controller.active_run import ActiveRun, conclude, record_run
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session, holds_two
from torchstone.execution.plan import sketch
from torchstone.plugins.choices import SHAPES
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.live_comparer import EvidenceProbes, LiveComparer, ProbeWatcher
from torchstone.workflows.diagnose.target import PREFIX, DiagnosisTarget, RemedyTrials, memory_cause, what_fits
from torchstone.workflows.run.planned_run import Results, begin_run, published


def patterns(run: RunSummary, case: CaseSummary) -> list[Advice]:
    """Return what is seen of a Case beside those like it, and of each accelerator beside the CPU."""
    beside = (told.advice for told in contrasts_with_cpu(_alike(run, case)))
    return [*_over_batch_sizes(run, case), *beside, *_of_its_step(run, case)]


def _over_batch_sizes(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    here = [one for one in _alike(run, case) if one.placement == case.placement]
    curve = curve_of(case, here, run.machine)
    if curve is not None:
        yield Advice((speed_up(curve, case.workload.item),))
        yield from advise(curve, case.configuration, ran_out(case, run.cases))


def _of_its_step(run: RunSummary, case: CaseSummary) -> Iterator[Advice]:
    yield from read_single_items(case, run)
    yield from read_phases(case, run)
    yield from read_memory(case, run)
    yield from read_spread(case, run.procedure)


def _alike(run: RunSummary, case: CaseSummary) -> list[CaseSummary]:
    """Return the Cases of the same workload that have a figure."""
    return [one for one in run.cases if one.workload == case.workload and "throughput" in one.estimates]


# ── three questions of a slow training ──────────────────────────────────────────────────────────────────────


def questions(case: CaseSummary) -> tuple[Statement, ...]:
    """Return the questions with their answers, by shares of the step: loading, a device that idles, computing."""
    busy = case.estimates.get("device_utilization")
    return three_questions(phases_s(case), busy.value if busy is not None else None)


def three_questions(spent_s: Mapping[str, float], utilization: float | None) -> tuple[Statement, ...]:
    """Return the same. `spent_s`: phase → seconds, summing to the step."""
    step_s = sum(spent_s.values())
    if step_s <= 0.0:
        return ()
    data_s = spent_s.get(DATA, 0.0)
    loads, computes = (
        share / step_s for share in (data_s, sum(spent_s.get(n, 0.0) for n in (PREFILL, DECODE, FORWARD, BACKWARD)))
    )
    low, high = rules.UTILIZATION
    if utilization is None:
        idles = Statement("is_utilization_known")
    else:
        known = {"answer": utilization < low, "share": utilization, "low": low, "high": high}
        idles = Statement("is_utilization_low", known)
    return (
        Statement("is_io_high", {"answer": loads >= rules.LOADER.least, "share": loads, "time_s": data_s}),
        idles,
        Statement("are_passes_slow", {"answer": computes >= rules.COMPUTING.least, "share": computes}),
    )


# ── before a long training ──────────────────────────────────────────────────────────────────────────────────


def checklist(run: RunSummary, case: CaseSummary) -> tuple[ChecklistItem, ...]:
    """Return what to have looked at before a long training begins, and what is known of each."""
    chosen, sizes = choice_of(case, run.machine, ()), _tried(run, case, "batch_size")
    rate, mixed = chosen.throughput, case.configuration.get("precision")
    lines = [
        ChecklistItem("measured", done=rate is not None),
        ChecklistItem("batch_sizes_compared", {"tried": sizes}, done=len(sizes) > 1),
    ]
    if case.configuration.get("feed") == "loader":
        workers = _tried(run, case, "num_workers")
        lines.append(ChecklistItem("workers_compared", {"tried": workers}, done=len(workers) > 1))
    narrow = mixed not in ("fp32", None) or len(_tried(run, case, "precision")) > 1
    lines.append(ChecklistItem("precision_compared", {"precision": mixed}, done=narrow))
    lines.append(_memory(chosen.memory_share))
    lines.append(ChecklistItem("throughput_known", {"rate": rate}, done=rate is not None))
    return tuple(lines)


def _tried(run: RunSummary, case: CaseSummary, axis: str) -> tuple[Scalar, ...]:
    values = {one.configuration.get(axis) for one in _alike(run, case)} - {None}
    return tuple(sorted(values, key=lambda value: (len(str(value)), str(value))))


def _memory(share: float | None) -> ChecklistItem:
    if share is None:
        return ChecklistItem("memory_unknown")
    (low, high), safe = rules.MEMORY, rules.FULL_MEMORY.least
    usual = "memory_is_above" if share > high else "memory_is_below" if share < low else "memory_is_within"
    return ChecklistItem(
        "memory_is_full" if share > safe else usual,
        {"share": share, "low": low, "high": high, "safe": safe},
        done=share <= safe,
    )


class Work(msgspec.Struct):
    """What a diagnosis has come to so far: an interrupted one still tells what it has."""

    case: Case
    evidence: Evidence | None = None
    causes: tuple[Cause, ...] = ()
    tried: tuple[TriedRemedy, ...] = ()
    applied: TriedRemedy | None = None
    failed: Trial | None = None


class DiagnosisCampaign:
    """One `torchstone diagnose` that measures. `say` is told what is done, `suspects` the first cause.

    `left_s`: asked when the causes are known, for how long what could help may be tried.
    """

    def __init__(
        self,
        target: DiagnosisTarget,
        left_s: Callable[[], float],
        watcher: Watcher | None = None,
        say: Callable[[str], None] = lambda _: None,
        suspects: Callable[[Cause], None] = lambda _: None,
        busy: WhenBusy = SHARE,
    ) -> None:
        self._target, self._left_s = target, left_s
        self._listening = ProbeWatcher(watcher or Silent())
        self._say, self._suspects, self._busy = say, suspects, busy

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Diagnose, and record what was measured, and the diagnosis, into `folder`.

        Interrupted before anything is known of the step, it has no answer. Raises TorchstoneError where the step itself
        fails.
        """
        target = self._target
        with Session(target.procedure, [target.model], self._listening) as session:
            machine, found = session.inspect()
            case = target.case_on(machine, found)
            with begin_run(
                session,
                machine,
                [case.placement],
                f"{PREFIX}{target.name}",
                command,
                self._busy,
                source=target.source,
                code=target.code,
            ) as (head, _):
                if target.own:
                    case = session.rehearsed(case, target.left_open).filled(case, target.left_open)
                work = Work(case)
                run = record_run(
                    session,
                    head,
                    folder,
                    lambda open_run, _: conclude(
                        open_run, lambda: self._work(work, open_run, machine), lambda so_far: self._answer(work, so_far)
                    ),
                    target.notes(case.placement),
                )
        results = published(run, folder)
        if work.failed is not None:
            outcome = work.failed.outcome
            raise TorchstoneError(
                f"the step itself failed ({outcome.status}: {outcome.message}); nothing to diagnose. "
                f"See torchstone show {head.run_id} --full"
            )
        return results

    def _work(self, work: Work, open_run: ActiveRun, machine: Machine) -> None:
        gathering = EvidenceProbes(open_run, self._listening, self._say)
        found = gathering.of(work.case, machine, cores_of_process())
        if isinstance(found, Trial):
            if found.outcome.status != Status.OUT_OF_MEMORY:
                work.failed = found
                return
            cause = memory_cause(work.case, found)
            work.causes, work.tried = (cause,), tuple(what_fits(work.case, cause, gathering.take))
            return
        work.evidence = found
        work.causes = causes_of(found)
        if found.disturbance is not None and found.disturbance.hides_causes:
            return  # what could help would be measured beside the same programs
        if work.causes:
            self._suspects(work.causes[0])
        keep = lambda case, trial: open_run.keep(case, trial, Purpose.PROBE)
        apart = not holds_two(found.device, peak_memory(found.figures, work.case.placement.device))
        comparer = LiveComparer(work.case, open_run.session, gathering.take, keep, apart=apart)
        trying = RemedyTrials(work.case, gathering.take, comparer, self._left_s(), self._say)
        work.tried = tuple(trying.all(work.causes))
        work.causes = ranked_causes(work.causes, work.tried)
        work.applied = trying.combined(work.tried)

    def _answer(self, work: Work, run: Run) -> Diagnosis | None:
        if work.evidence is None and not work.causes:
            return None
        summary = summarize(entry_of(run, Path()))
        measured = next((case for case in summary.cases if case.case_id == work.case.case_id), None)
        recorded, of_run = measured, summary
        if self._target.run is not None and self._target.case is not None:
            wanted = self._target.case.case_id
            recorded = next((case for case in self._target.run.cases if case.case_id == wanted), measured)
            of_run = self._target.run
        bound = bound_of(work.case, run)
        diagnosis = initial_diagnosis(
            run.head.run_id, self._target.name, work.case, work.evidence, work.causes, of_run, recorded
        )
        notes = [Advice((self._target.edited,))] if self._target.edited is not None else []
        if changes := self._target.moved(run.head.machine):
            notes.append(Advice((Statement("not_as_recorded", {"changes": tuple(changes)}),)))
        return msgspec.structs.replace(
            diagnosis,
            tried=work.tried,
            applied=work.applied,
            limits=bound.evidence if bound is not None else (),
            pattern=(*notes, *diagnosis.pattern),
            command=self._command(work),
        )

    def _command(self, work: Work) -> str | None:
        """Return what runs with the settings that helped, where any did."""
        if work.applied is None or work.applied.gain is None:
            return None
        source = self._target.source.word if self._target.source is not None else None
        return command_for(work.case, work.applied.what_if, source, self._target.procedure)


def diagnosed_from_record(target: DiagnosisTarget) -> Diagnosis:
    """Return what a record alone says of a Case, nothing measured. The target is of a stored run.

    Of a case whose trials other programs disturbed, no cause is named.
    """
    run, case = target.run, target.case
    if run is None or case is None:
        raise TorchstoneError(f"{target.name} is not a stored run")
    recorded = next(one for one in run.cases if one.case_id == case.case_id)
    evidence = recorded_evidence(run, recorded)
    diagnosis = initial_diagnosis(run.run_id, run.name, case, evidence, causes_of(evidence), run, recorded)
    return msgspec.structs.replace(diagnosis, unmeasured=target.elsewhere)


def initial_diagnosis(
    run_id: str,
    about: str,
    case: Case,
    evidence: Evidence | None,
    causes: tuple[Cause, ...],
    run: RunSummary,
    recorded: CaseSummary | None,
) -> Diagnosis:
    """Return a Diagnosis before anything was tried. `run` and `recorded`: where its pattern is read from."""
    diagnosis = Diagnosis(run_id, about, case, None, None, causes)
    if evidence is not None:
        rate = evidence.figures.get("throughput")
        diagnosis = msgspec.structs.replace(
            diagnosis,
            throughput=rate,
            step_s=evidence.step_s,
            fed=own_data(evidence.facts),
            disturbance=evidence.disturbance,
        )
    if recorded is None:
        return diagnosis
    return msgspec.structs.replace(
        diagnosis,
        pattern=tuple(patterns(run, recorded)),
        questions=questions(recorded),
        checklist=checklist(run, recorded),
    )


def cores_of_process() -> int | None:
    """Return how many cores this process, and so its trials, may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


# ── what to type to take the settings that helped ───────────────────────────────────────────────────────────

_OF_A_PROCEDURE = ("seed", "isolation", "heap", "settings")  # what decides what is computed, and how fast


def command_for(case: Case, what_if: WhatIf, source: str | None, procedure: Procedure) -> str:
    """Return the `torchstone run` of this very Case with these settings. `source`: the recipe or file it came from.

    A recipe may ask for several cases and be overruled by flags: what the Case has is said beside it.
    """
    named = _as_recipe(source, case) if source is not None else None
    words, axes = named or (workload_flags(case.workload), ())
    words = ["torchstone", "run", *words, "--device", str(case.placement)]
    for axis, value in {**_notable_settings(case, {*axes, *what_if.settings}), **what_if.settings}.items():
        words += ["--axis", f"{axis}={scalar_word(value)}"]
    usual = Procedure()
    how = {name: getattr(procedure, name) for name in _OF_A_PROCEDURE}
    how = {name: value for name, value in how.items() if value not in (None, getattr(usual, name))}
    for name, value in {**how, **({"heap": what_if.heap} if what_if.heap is not None else {})}.items():
        words += [f"--{name}", scalar_word(value)]
    return shlex.join(words)


def _as_recipe(source: str, case: Case) -> tuple[list[str], Collection[str]] | None:
    """Return the words that name the recipe, and the axes that it names.

    None where it does not ask for this workload (any more), or, of its task, for others as well.
    """
    work = case.workload
    try:
        request = load_request(source)
        ours = [one for one in request.workloads if one.task == work.task]
        if len(ours) != 1 or sketch(ours[0]).workload != work:
            return None
    except TorchstoneError:  # it is gone, or edited so that it cannot be read: flags do without it
        return None
    return [source, *(["--task", str(work.task)] if len(request.workloads) > 1 else [])], ours[0].axes


def _notable_settings(case: Case, named: Collection[str]) -> dict[str, Scalar]:
    """Return the settings that do not go without saying: `named` ones have another value otherwise.

    A model brings its own sizes of an input, and data a loader, the user's own with settings of its own.
    """
    by_data = of_data(case)
    said = {
        axis: value
        for axis, value in case.configuration.items()
        if axis in AXES and (axis in named or axis in SHAPES or axis in by_data or value != AXES[axis].default)
    }
    if "feed" in case.configuration and not said.keys().isdisjoint(LOADER_AXES):
        said["feed"] = case.configuration["feed"]
    return said
