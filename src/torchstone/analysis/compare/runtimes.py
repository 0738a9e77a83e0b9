"""Total runtimes of trainings to an end: as another tool tells them, or as `torchstone train` took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.compare.comparability import sameness
from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import CaseTrials, ComparedInput, device_of
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.facts import accuracies, accuracy_name
from torchstone.core.schema.run import Run, total_runtime_s

_MOST_MODELS = 2


def specifications(compared: ComparedRuns) -> list[tuple[str, list[str]]]:
    """Return (what it is, a text for each participant), without what none of them tells."""
    columns = [dict(_facts(one, compared)) for one in compared.participants]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, [column.get(name, units.MISSING) for column in columns]) for name in names]


def _facts(one: ComparedInput, compared: ComparedRuns) -> Iterator[tuple[str, str]]:
    newest = one.runs[-1]
    machine, device = newest.head.machine, device_of(newest)
    yield "Experiment", newest.head.name
    yield "Run", newest.head.run_id + (f" and {len(one.runs) - 1} more" if len(one.runs) > 1 else "")
    yield "Host", machine.host.hostname
    if device is not None:
        yield (
            "Device",
            device.name if device.vendor.lower() in device.name.lower() else f"{device.vendor} - {device.name}",
        )
        if device.kind != "cpu" and device.memory_bytes is not None:
            yield "Device memory", units.quantity(device.memory_bytes, "bytes")
        for name, value in (("Compute capability", device.compute_capability), ("Driver", device.driver)):
            if value is not None and device.kind != "cpu":
                yield name, value
    cores = f", {machine.host.logical_cores} logical cores" if machine.host.logical_cores is not None else ""
    yield "Processor", f"{machine.host.processor or units.MISSING}{cores}"
    yield "Torch", str(machine.software.get("torch") or units.MISSING)
    yield "Model", _models(one.runs)
    if (seconds := runtime_s(one)) is not None:
        yield "Runtime", f"{seconds / 60:.2f} min"
    yield from ((accuracy_name(name), f"{share:.2%}") for name, share in reached_by(one).items())
    rates = list(_throughputs(one, compared))
    if rates:
        yield "Throughput", rates[0] if len(rates) == 1 else f"{rates[0]} (first of {len(rates)} cases)"


def _models(runs: Sequence[Run]) -> str:
    found: dict[str, None] = {}
    for run in runs:
        counts = {trial.case_id: trial.facts.parameters for trial in run.trials if trial.facts.parameters is not None}
        for case in run.head.plan.cases:
            count = counts.get(case.case_id)
            told = f" ({count:,.0f} params)" if isinstance(count, int | float) else ""
            found[f"{case.workload.canonical()['model']}{told}"] = None
    names = list(found)
    return ", ".join(names[:_MOST_MODELS]) + (f" and {len(names) - _MOST_MODELS} more" if len(names) > 2 else "")


def runtime_s(one: ComparedInput) -> float | None:
    """Return how long all runs of a participant took; None where another tool does not tell of one, or there is none.

    What took no time was not taken.
    """
    each = [total_runtime_s((t.facts, t.duration_s) for t in run.trials) for run in one.runs]
    known = [seconds for seconds in each if seconds is not None]
    return sum(known) or None if len(known) == len(each) else None


def reached_by(one: ComparedInput) -> dict[str, float]:
    """Return the accuracies of the newest training that tells any, as shares by fact (terms.reached)."""
    for run in reversed(one.runs):
        for trial in reversed(run.trials):
            if found := accuracies(trial.facts):
                return found
    return {}


def _throughputs(one: ComparedInput, compared: ComparedRuns) -> Iterator[str]:
    baseline = compared.participants[0]
    seen = set()
    for judged in compared.judged:
        found = judged.comparison
        if found.metric != primary(judged.task) or judged.case in seen:
            continue
        value = judged.baseline_value if one is baseline else judged.candidate_value
        if value is not None and (one is baseline or found.candidate.label == one.label):
            seen.add(judged.case)
            item = next(m.sides[one.letter][-1].case.workload.item for m in compared.matched if m.label == judged.case)
            yield units.quantity(value.value, f"{item}s/s" if found.metric == "throughput" else value.unit, 4)


class RuntimeRatio(msgspec.Struct, frozen=True):
    """Two trainings of one Case, each taken once: the candidate's total runtime over the baseline's.

    `faster`: the letter of the shorter; None where they are equal, or `epochs` (of either) say that one did more.
    """

    case: str
    baseline: str
    candidate: str
    baseline_s: float
    candidate_s: float
    ratio: float
    faster: str | None
    epochs: tuple[Scalar, Scalar]

    @property
    def same_work(self) -> bool:
        """Whether both trained for as many epochs, as far as is known."""
        one, other = self.epochs
        return one == other or None in self.epochs


def runtime_ratios(compared: ComparedRuns) -> list[RuntimeRatio]:
    """Return one for each candidate and training that has a total runtime on both sides."""
    baseline, found = compared.participants[0], []
    for matched in compared.matched:
        if matched.task != Task.TRAIN or baseline.letter not in matched.sides:
            continue
        for candidate in compared.participants[1:]:
            if candidate.letter in matched.sides:
                pair = [matched.sides[one.letter] for one in (baseline, candidate)]
                ratio = _ratio(matched.label, baseline, candidate, pair[0][-1], pair[1][-1])
                if ratio is not None and sameness(*pair).against is None:
                    found.append(ratio)
    return found


def _ratio(
    case: str, baseline: ComparedInput, candidate: ComparedInput, a: CaseTrials, b: CaseTrials
) -> RuntimeRatio | None:
    one_s, other_s = _total_s(a, baseline), _total_s(b, candidate)
    if not one_s or not other_s:
        return None
    epochs = (_epochs(a), _epochs(b))
    shorter = baseline.letter if one_s < other_s else candidate.letter if other_s < one_s else None
    made = RuntimeRatio(case, baseline.letter, candidate.letter, one_s, other_s, other_s / one_s, shorter, epochs)
    return made if made.same_work else msgspec.structs.replace(made, faster=None)


def _total_s(taken: CaseTrials, one: ComparedInput) -> float | None:
    """Return how long a training to its end took; None where this is none, or only the part after a cut is known."""
    fit = taken.run.head.procedure.fit
    if not taken.trials or (fit is None and not any(trial.facts.total_runtime_s is not None for trial in taken.trials)):
        return None
    if fit is not None and fit.resume:
        metrics = one.trainings.get(taken.run.head.run_id)
        return metrics.total_runtime_minutes * 60.0 if metrics is not None else None
    return total_runtime_s((trial.facts, trial.duration_s) for trial in taken.trials)


def _epochs(taken: CaseTrials) -> Scalar:
    return next((trial.facts.epochs for trial in taken.trials if trial.facts.epochs is not None), None)
