"""A run as blocks of text: system, device, model, data, training, throughput, inference, memory, energy, runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.advice.absent import on_devices_here
from torchstone.analysis.roofline.bound import UNKNOWN
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.cli import _performance_summary
from torchstone.cli._findings import labels
from torchstone.cli._performance_analyses import print_analyses
from torchstone.cli._table import plain, terminal_width
from torchstone.core import units
from torchstone.core.figures import ANATOMY_STEP, PHASE
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.claim import IMPORTED, IMPORTED_FROM
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.reached import EPOCHS, accuracies, accuracy_name
from torchstone.core.schema.trial import Status

_BLOCKS = {
    "THROUGHPUT": "throughput token_throughput step_time step_time_mean step_time_min step_time_max "
    "step_time_std time_per_item_s epoch_time_s dataset_time_s data_wait_s data_wait_share",
    "ROOFLINE": "flops_per_step traffic_per_step_bytes arithmetic_intensity operators_per_step achieved_flops "
    "mfu_datasheet mfu_measured mfu_sustained roofline_share",
    "INFERENCE PERFORMANCE": "latency_per_batch_mean_s latency_per_batch_p50_s latency_per_batch_p90_s "
    "latency_per_batch_p95_s latency_per_batch_p99_s latency_per_batch_min_s latency_per_batch_max_s "
    "latency_per_item_s time_to_first_prediction_s",
    "GENERATION": "time_to_first_token_mean_s time_to_first_token_p50_s time_to_first_token_p90_s "
    "time_to_first_token_p95_s time_to_first_token_p99_s time_per_output_token_mean_s time_per_output_token_p50_s "
    "time_per_output_token_p90_s time_per_output_token_p95_s time_per_output_token_p99_s output_token_throughput "
    "prompt_token_throughput kv_cache_bytes",
    "TRAINING": "epoch_time_s first_step_time_s loss_first loss_last loss_end loss_min loss_max loss_mean loss_std "
    "loss_convergence_rate loss_rate_per_1000_items",
    "MEMORY": "allocated_bytes reserved_bytes mean_allocated_bytes peak_allocated_bytes peak_reserved_bytes "
    "warmup_peak_allocated_bytes warmup_peak_reserved_bytes peak_rss_bytes mean_rss_bytes device_memory_used_bytes "
    "mean_device_memory_used_bytes allocator_retries",
    "ENERGY": "energy_j energy_per_item_j average_power_w",
    "DEVICE AND NEIGHBOURS": "device_utilization device_temperature_c device_clock_hz other_cpu_cores steal_share "
    "minor_faults_per_step",
    "RUNTIME": "total_time_s total_items steps model_load_time_s start_time_s",
}


def print_head(run: RunSummary) -> None:
    """Print what run it is, on which machine, and how it was measured."""
    machine, how = run.machine, run.procedure
    print(plain(f"{run.name}: run {run.run_id}, {run.started_utc}, {run.status}"))
    used = {str(case.placement) for case in run.cases}
    devices = ", ".join(
        d.name for d in machine.devices if (d.kind if d.kind in ("cpu", "mps") else f"{d.kind}:{d.index}") in used
    )
    print(plain(f"{machine.host.hostname}: {devices}, torch {machine.software.get('torch')}"))
    counted = _counted(run)
    if how.isolation == IMPORTED:
        tools = sorted({str(t.facts.get(IMPORTED_FROM)) for case in run.cases for t in case.trials})
        print(plain(f"{counted}, measured by {', '.join(tools)}; torchstone check {run.run_id} looks for its mistakes"))
        return
    taken = f"{counted}, {_length(how)}, {how.isolation}, {how.heap} heap"
    print(plain(f"{taken}; ± is half the 95 % interval over trials"))


def _counted(run: RunSummary) -> str:
    """Return how many trials of a case there are: as asked for, or as it came."""
    how = run.procedure
    if not how.in_rounds:
        return f"{how.repetitions} trial{'s' * (how.repetitions > 1)} a case"
    cases = on_devices_here(run)
    counts = [sum(t.outcome.status != Status.INTERRUPTED for t in case.trials) for case in cases] or [0]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least} to {most}'} trial{'s' * (most != 1)} a case"


def _length(how: Procedure) -> str:
    if how.epochs is not None:
        return f"at most {how.epochs} epoch{'s' * (how.epochs > 1)}"
    if how.iterations is not None:
        return f"{how.iterations} steps"
    if how.in_rounds:
        return f"short windows, until ±{100 * how.aim:g} %"
    return f"at most {how.budget_s:g} s a window{f', until ±{100 * how.target:g} %' if how.target is not None else ''}"


def print_report(run: RunSummary) -> None:
    """Print every block."""
    width = min(terminal_width(), 100)
    print("\n" + "=" * width)
    print(plain(f"BENCHMARK REPORT: {run.name}"))
    print("=" * width)
    for title, lines in (("SYSTEM", _system), ("DEVICES", _devices), ("MODEL", _models), ("DATA", _data)):
        _print_block(title, list(lines(run)))
    known = labels(run.cases)
    for case in run.cases:
        print("\n" + plain(f"── {known[case.case_id]} on {case.placement}: {case.verdict}"))
        print(plain("   " + ", ".join(f"{name}={value}" for name, value in case.configuration.items())))
        for title, names in _BLOCKS.items():
            _print_block(title, list(_block(title, names.split(), case)))
        phases = [name for name in case.estimates if name.startswith(PHASE)]
        _print_block("PHASES", list(_figures(case, [*phases, ANATOMY_STEP])))
    _print_block("PEAKS", list(_peaks(run)))
    _print_block("PERFORMANCE SUMMARY", list(_performance_summary.lines(run)))
    print_analyses(run)
    _print_block("TOTAL RUNTIME", [_runtime(run)])


def _block(title: str, names: Sequence[str], case: CaseSummary) -> Iterator[str]:
    if title == "TRAINING":
        yield from _reached(case)
    epochs_in = "TRAINING" if case.workload.task == Task.TRAIN else "THROUGHPUT"
    yield from _figures(case, [name for name in names if name != "epoch_time_s" or title == epochs_in])
    if title == "ROOFLINE":
        yield from _limits(case)


def _runtime(run: RunSummary) -> str:
    """Return how long it took; a dash where another tool measured it and does not tell."""
    total_s, trials = run.total_runtime_s, sum(len(case.trials) for case in run.cases)
    if total_s is None:
        return f"{units.MISSING} (its file has none)"
    told = f"{total_s:.2f} s ({total_s / 60:.2f} min)"
    if run.procedure.isolation == IMPORTED:
        return told
    return f"{told} in {trials} trial{'s' * (trials != 1)}"


def _print_block(title: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"\n[{title}]")
        for line in lines:
            print(plain(f"  {line}"))


def _system(run: RunSummary) -> Iterator[str]:
    host = run.machine.host
    yield f"Platform: {host.platform}"
    cores = f", {host.physical_cores} cores ({host.logical_cores} logical)" if host.logical_cores is not None else ""
    yield f"Processor: {host.processor or units.MISSING}{cores}"
    yield f"Memory: {units.quantity(host.memory_bytes, 'bytes')}, governor {host.governor or units.MISSING}"
    yield ", ".join(f"{name} {version}" for name, version in run.machine.software.items() if version)
    settings = ", ".join(f"{name}={value}" for name, value in run.machine.settings.items() if value is not None)
    if settings:
        yield settings


def _devices(run: RunSummary) -> Iterator[str]:
    for d in run.machine.devices:
        facts = [f"vendor {d.vendor}", f"memory {units.quantity(d.memory_bytes, 'bytes')}"]
        facts += [
            f"{n} {v}"
            for n, v in (("compute", d.compute_capability), ("driver", d.driver), ("runtime", d.runtime))
            if v
        ]
        yield f"{d.kind}:{d.index} {d.name}: {', '.join(facts)}"


def _models(run: RunSummary) -> Iterator[str]:
    seen = set()
    for case in run.cases:
        if case.workload.model in seen:
            continue
        seen.add(case.workload.model)
        count = _fact([case], "parameters")
        parameters = f"{count:,.0f} parameters" if isinstance(count, int | float) else "parameters not counted"
        fixed = ", ".join(f"{name} {value}" for name, value in case.workload.fixed.items())
        yield f"{case.workload.model}: {parameters}, item {case.workload.item}{', ' + fixed if fixed else ''}"


def _data(run: RunSummary) -> Iterator[str]:
    for data in dict.fromkeys(case.workload.data for case in run.cases):
        cases = [case for case in run.cases if case.workload.data == data]
        items = _fact(cases, "dataset_items")
        told = [f"{items:,} items" if isinstance(items, int) else "made as needed"]
        for fact, what in (("validation_items", "held out"), ("test_items", "to test on")):
            if isinstance(count := _fact(cases, fact), int):
                told.append(f"{count:,} {what}")
        classes = next((n for c in cases if (n := c.workload.fixed.get("data_classes")) is not None), None)
        classes = classes if classes is not None else _fact(cases, "data_classes")
        told += [f"{classes} classes"] if classes is not None else []
        lengths = {case.configuration.get("sequence_length") for case in cases} - {None}
        told += [f"sequence length {', '.join(sorted(map(str, lengths)))}"] if lengths else []
        yield f"{data}: {', '.join(told)}"


def _fact(cases: Sequence[CaseSummary], name: str) -> Scalar:
    return next((t.facts[name] for c in cases for t in c.trials if t.facts.get(name) is not None), None)


def _reached(case: CaseSummary) -> Iterator[str]:
    """Yield how many epochs a training to its end had, and the accuracies that it reached."""
    last = next((t.facts for t in reversed(case.trials) if EPOCHS in t.facts or accuracies(t.facts)), {})
    if (epochs := last.get(EPOCHS)) is not None:
        best = last.get("best_epoch")
        yield f"{'epochs':<28} {epochs}" + (f" (best: {best})" if best else "")
    for name, share in accuracies(last).items():
        yield f"{name:<28} {f'{share:.2%}':<34} {accuracy_name(name).lower()} after the last epoch"


def _limits(case: CaseSummary) -> Iterator[str]:
    """Yield what bounds a Case, with the evidence."""
    if case.bound is not None and case.bound.what != UNKNOWN:
        yield f"bounded by {case.bound.what}, {units.quantity(case.bound.share, 'ratio')} of a step"
        yield from (f"  {line}" for line in case.bound.evidence)


def _peaks(run: RunSummary) -> Iterator[str]:
    """Yield where the peaks are from, and why others are not known: once, whatever the number of Cases."""
    tops = [case.ceilings for case in run.cases if case.ceilings is not None]
    yield from dict.fromkeys(f"measured {top.measured_utc} ({top.precision})" for top in tops if top.measured_utc)
    yield from dict.fromkeys(f"datasheet: {top.datasheet_source}" for top in tops if top.datasheet_source)
    yield from dict.fromkeys(line for top in tops for line in top.missing)


def _figures(case: CaseSummary, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        estimate = case.estimates.get(name)
        if estimate is not None:
            meaning = FIGURES[name].meaning if name in FIGURES else "mean time a step"
            yield f"{name:<28} {_estimate(estimate):<34} {meaning}"


def _estimate(estimate: Estimate) -> str:
    text = units.quantity(estimate.value, estimate.unit, 4)
    if estimate.is_wide:
        text += " [–: wider than ±50 %]"
    elif estimate.low is not None and estimate.high is not None and estimate.high > estimate.low:
        text += f" [{units.quantity(estimate.low, estimate.unit)}, {units.quantity(estimate.high, estimate.unit)}]"
    return text if estimate.supported else f"({text}) {estimate.note}"
