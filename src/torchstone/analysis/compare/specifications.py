"""Who is compared, side by side: experiment, device, model and its parameters, runtime, accuracies, throughput."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.compare.compare import ComparedRuns
from torchstone.analysis.compare.compared_figures import primary
from torchstone.analysis.compare.inputs import ComparedInput, device_of
from torchstone.core import units
from torchstone.core.schema.claim import total_runtime_s
from torchstone.core.schema.reached import accuracies, accuracy_name
from torchstone.core.schema.run import Run

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
