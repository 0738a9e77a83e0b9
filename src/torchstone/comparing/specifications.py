"""Who is compared, side by side: experiment, device, model and its parameters, runtime, accuracies, throughput."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone import units
from torchstone.comparing.compare import ComparedRuns
from torchstone.comparing.compared_figures import primary
from torchstone.comparing.participants import Participant, device_of
from torchstone.terms.run import Run

_MOST_MODELS = 2


def specifications(compared: ComparedRuns) -> list[tuple[str, list[str]]]:
    """Return (what it is, a text for each participant), without what none of them tells."""
    columns = [dict(_facts(one, compared)) for one in compared.participants]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, [column.get(name, units.MISSING) for column in columns]) for name in names]


def _facts(one: Participant, compared: ComparedRuns) -> Iterator[tuple[str, str]]:
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
    seconds = sum(trial.duration_s for run in one.runs for trial in run.trials)
    if seconds > 0.0:
        yield "Runtime", f"{seconds / 60:.2f} min"
    yield from _reached(one)
    rates = list(_throughputs(one, compared))
    if rates:
        yield "Throughput", rates[0] if len(rates) == 1 else f"{rates[0]} (first of {len(rates)} cases)"


def _models(runs: Sequence[Run]) -> str:
    found: dict[str, None] = {}
    for run in runs:
        counts = {trial.case_id: trial.facts.get("parameters") for trial in run.trials if "parameters" in trial.facts}
        for case in run.head.plan.cases:
            count = counts.get(case.case_id)
            told = f" ({count:,.0f} params)" if isinstance(count, int | float) else ""
            found[f"{case.workload.canonical()['model']}{told}"] = None
    names = list(found)
    return ", ".join(names[:_MOST_MODELS]) + (f" and {len(names) - _MOST_MODELS} more" if len(names) > 2 else "")


def _reached(one: Participant) -> Iterator[tuple[str, str]]:
    """Yield the accuracies of the newest training in a folder, or what another tool told of its own."""
    told = next((t.facts["test_accuracy"] for run in one.runs for t in run.trials if "test_accuracy" in t.facts), None)
    if isinstance(told, float):  # in percent, as the benchmark reports that have it write it
        yield "Test accuracy", f"{told:.2f}%"
    for run in reversed(one.runs):
        if run.head.run_id in one.trainings:
            metrics = one.trainings[run.head.run_id]
            for name, value in (
                ("Train accuracy", metrics.final_train_accuracy), ("Test accuracy", metrics.final_val_accuracy),
            ):  # fmt: skip
                if value is not None:
                    yield name, f"{value:.2%}"
            return


def _throughputs(one: Participant, compared: ComparedRuns) -> Iterator[str]:
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
