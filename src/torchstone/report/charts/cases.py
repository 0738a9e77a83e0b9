"""What cases are called in pictures, and the cases of which a report shows the single steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torchstone.analysis.advice.grouping import groups, on_devices_here, varying_axes
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.charts.vega_lite import without_middle
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.case import Case, model_name
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial, ended_well, estimation_trials

MOST_CASES = 6  # a picture of each of hundreds would be read by nobody
MOST_TRIALS = 8  # of a case: as many as there are colours
_TITLE, _MODEL = 110, 48  # characters

NameOf = Callable[[Case | CaseSummary], str]


def device_names(machine: Machine) -> NameOf:
    """Return what the device of a Case is called: as its vendor does, with its place where several are called so."""
    names = [device.name for device in machine.devices]

    def name_of(case: Case | CaseSummary) -> str:
        place = case.placement
        found = machine.device(place.device, place.index)
        if found is None:
            return str(place)
        return found.name if names.count(found.name) == 1 else f"{found.name} ({place})"

    return name_of


def workload_name(case: Case | CaseSummary) -> str:
    """Return "train cnn": the task and the model, without its source and folders."""
    return f"{case.workload.task} {without_middle(model_name(case.workload.model), _MODEL)}"


def chosen_cases(run: RunSummary) -> list[CaseSummary]:
    """Return the Cases that were measured, where they are few; else the fastest of each workload and device.

    What a tune recommends, and both sides of an A/B comparison, are always among them.
    """
    measured = [case for case in on_devices_here(run) if ended_well(case.trials) and case.verdict != Verdict.INVALID]
    if len(measured) <= MOST_CASES:
        return measured
    first = [case for case in measured if case.case_id in _named(run)]
    fastest = [max(cases, key=case_rate) for cases in groups(measured)]
    found = {case.case_id: case for case in (*first, *fastest)}
    return list(found.values())[:MOST_CASES]


def _named(run: RunSummary) -> Sequence[str]:
    if isinstance(run.answer, TuneResult):
        return (run.answer.recommended.case_id,)
    if isinstance(run.answer, AbResult):
        return run.answer.comparison.baseline.case_id, run.answer.comparison.candidate.case_id
    return ()


def case_rate(case: CaseSummary) -> float:
    """Return the throughput of a Case, of generation that of output tokens; 0 where it has none."""
    found = case.estimates.get("output_token_throughput") or case.estimates.get("throughput")
    return found.value if found is not None else 0.0


def titles_of(cases: Sequence[CaseSummary], summary: RunSummary) -> Mapping[str, str]:
    """Return by case_id what each is called beside the others: workload, device, and the settings that vary."""
    name_of, axes = device_names(summary.machine), varying_axes(cases) if cases else []
    found = {}
    for case in cases:
        point = [f"{axis} {value}" for axis in axes if (value := case.configuration.get(axis)) is not None]
        found[case.case_id] = without_middle(", ".join((workload_name(case), name_of(case), *point)), _TITLE)
    return found


def trials_of(case: CaseSummary, run: Run) -> list[Trial]:
    """Return the trials with raw values that stand behind the figures of a Case, MOST_TRIALS at most, in order."""
    return list(estimation_trials(ended_well(run.of_case(case.case_id))))[:MOST_TRIALS]


def of_trials(trials: Sequence[Trial]) -> str:
    """Return "3 trials"."""
    return f"{len(trials)} trial{'s' * (len(trials) != 1)}"
