"""From a target to a stored diagnosis: measure its parts, rank the causes, try what could help, write it down."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.advice.fed import fed_by
from torchstone.analysis.roofline.bound import bound_of
from torchstone.analysis.summary import CaseSummary, RunSummary, summarize
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.advice import Advice
from torchstone.core.schema.case import Case
from torchstone.core.schema.diagnosis import Cause, Diagnosis, Tried
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.memory_figures import peak_memory
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Purpose, Status, Trial
from torchstone.execution.controller.active_run import ActiveRun, conclude, recorded
from torchstone.execution.controller.device_lock import SHARE, WhenBusy
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.room import holds_two
from torchstone.execution.controller.session import Session
from torchstone.storage.query import entry_of
from torchstone.workflows.campaign import begun
from torchstone.workflows.diagnose.evidence import Evidence
from torchstone.workflows.diagnose.live_comparer import LiveComparer
from torchstone.workflows.diagnose.observations import patterns, questions, to_check
from torchstone.workflows.diagnose.probes import EvidenceProbes, Listening
from torchstone.workflows.diagnose.ranking import causes_of, ranked
from torchstone.workflows.diagnose.recorded import recorded_evidence
from torchstone.workflows.diagnose.short_of_memory import out_of_memory, what_fits
from torchstone.workflows.diagnose.suggested_command import command_for
from torchstone.workflows.diagnose.target import PREFIX, Target
from torchstone.workflows.diagnose.what_if import RemedyTrials
from torchstone.workflows.run.results import Results, published


class Work(msgspec.Struct):
    """What a diagnosis has come to so far: an interrupted one still tells what it has."""

    case: Case
    evidence: Evidence | None = None
    causes: tuple[Cause, ...] = ()
    tried: tuple[Tried, ...] = ()
    applied: Tried | None = None
    failed: Trial | None = None


class DiagnosisCampaign:
    """One `torchstone diagnose` that measures. `say` is told what is done.

    `left_s`: asked when the causes are known, for how long what could help may be tried.
    """

    def __init__(
        self,
        target: Target,
        left_s: Callable[[], float],
        watcher: Watcher | None = None,
        say: Callable[[str], None] = lambda _: None,
        busy: WhenBusy = SHARE,
    ) -> None:
        self._target, self._left_s = target, left_s
        self._listening = Listening(watcher or Silent())
        self._say, self._busy = say, busy

    def carry_out(self, folder: Path, command: Sequence[str]) -> Results:
        """Diagnose, and record what was measured, and the diagnosis, into `folder`.

        Interrupted before anything is known of the step, it has no answer. Raises TorchstoneError where the step itself
        fails.
        """
        target = self._target
        with Session(target.procedure, [target.model], self._listening) as session:
            machine, found = session.inspect()
            case = target.case_on(machine, found)
            with begun(
                session, machine, [case.placement], f"{PREFIX}{target.name}", command, self._busy, source=target.source,
                code=target.code,
            ) as (head, _):  # fmt: skip
                if target.own:
                    case = session.rehearsed(case, target.left_open).filled(case, target.left_open)
                work = Work(case)
                run = recorded(
                    session, head, folder,
                    lambda open_run, _: conclude(
                        open_run, lambda: self._work(work, open_run, machine), lambda so_far: self._answer(work, so_far)
                    ),
                    target.notes(case.placement),
                )  # fmt: skip
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
            cause = out_of_memory(work.case, found)
            work.causes, work.tried = (cause,), tuple(what_fits(work.case, cause, gathering.take))
            return
        work.evidence = found
        work.causes = causes_of(found)
        if found.disturbance is not None:
            return  # what could help would be measured beside the same programs
        if work.causes:
            self._say(f"first suspect: {work.causes[0].title}")
        keep = lambda case, trial: open_run.keep(case, trial, Purpose.PROBE)
        apart = not holds_two(found.device, peak_memory(found.figures, work.case.placement.device))
        comparer = LiveComparer(work.case, open_run.session, gathering.take, keep, apart=apart)
        trying = RemedyTrials(work.case, gathering.take, comparer, self._left_s(), self._say)
        work.tried = tuple(trying.all(work.causes))
        work.causes = ranked(work.causes, work.tried)
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
        diagnosis = told(run.head.run_id, self._target.name, work.case, work.evidence, work.causes, of_run, recorded)
        notes = [Advice(self._target.edited)] if self._target.edited is not None else []
        if moved := self._target.moved(run.head.machine):
            notes.append(Advice(f"not as it was when it was recorded: {'; '.join(moved)}"))
        return msgspec.structs.replace(
            diagnosis, tried=work.tried, applied=work.applied, limits=bound.evidence if bound is not None else (),
            pattern=(*notes, *diagnosis.pattern), command=self._command(work),
        )  # fmt: skip

    def _command(self, work: Work) -> str | None:
        """Return what runs with the settings that helped, where any did."""
        if work.applied is None or work.applied.gain is None:
            return None
        source = self._target.source.word if self._target.source is not None else None
        return command_for(work.case, work.applied.what_if, source, self._target.procedure)


def diagnosed_from_record(target: Target) -> Diagnosis:
    """Return what a record alone says of a Case, nothing measured. The target is of a stored run."""
    run, case = target.run, target.case
    if run is None or case is None:
        raise TorchstoneError(f"{target.name} is not a stored run")
    recorded = next(one for one in run.cases if one.case_id == case.case_id)
    evidence = recorded_evidence(run, recorded)
    diagnosis = told(run.run_id, run.name, case, evidence, causes_of(evidence), run, recorded)
    return msgspec.structs.replace(diagnosis, unmeasured=target.elsewhere)


def told(
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
        fed = fed_by(case.workload, case.configuration, evidence.facts)
        diagnosis = msgspec.structs.replace(
            diagnosis, throughput=rate, step_s=evidence.step_s, fed=fed,
            disturbance=evidence.disturbance,
        )  # fmt: skip
    if recorded is None:
        return diagnosis
    return msgspec.structs.replace(
        diagnosis, pattern=tuple(patterns(run, recorded)), questions=tuple(questions(recorded)),
        checklist=tuple(to_check(run, recorded)),
    )  # fmt: skip


def cores_of_process() -> int | None:
    """Return how many cores this process, and so its trials, may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
