"""Five formats of benchmark scripts and guides: sweeps, suites, image benchmarks, GPU reports and training trees."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Outcome, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import (
    MOST_ROWS,
    csv_rows,
    header_of,
    number,
    numbers,
    parsed,
    part,
    scaled,
    sha256_of,
    table_of,
    text_of,
    whole,
    word,
)
from torchstone.plugins.protocols import Importer

_MS, _MIB, _GIB = 1e-3, 2.0**20, 2.0**30

# ── configuration_sweep ──────────────────────────────────────────────────────────────────────────────────────

# A sweep for the best training configuration, as printed (BENCHMARK SUMMARY, OPTIMAL CONFIGURATION) or as its CSV.
#
# A row has batch, workers, AMP, the phases of a step in ms, samples/s, GPU %, memory and status.

_SWEEP_COLUMNS = frozenset({"Batch", "Workers", "AMP", "I/O(ms)", "Fwd(ms)", "Bwd(ms)", "Total(ms)", "Samples/s"})
_SWEEP_ALIASES: draft.Aliases = {
    "phase_data_s": (1e-3, "I/O(ms)"),
    "phase_forward_s": (1e-3, "Fwd(ms)"),
    "phase_backward_s": (1e-3, "Bwd(ms)"),
    "phase_optimizer_s": (1e-3, "Opt(ms)"),
    "anatomy_step_s": (1e-3, "Total(ms)"),
    "throughput": (1.0, "Samples/s"),
    "device_utilization": (0.01, "GPU%"),
    "device_memory_used_bytes": (1e9, "Mem(GB)"),
}
_NOT_OK = ("oom", "out of memory", "fail", "error", "❌")
_TITLE, _BELOW = "BENCHMARK SUMMARY", "OPTIMAL CONFIGURATION"
_CHOICES = {"Throughput": "throughput", "Efficiency": "efficiency", "Recommended": "recommended"}
_BATCH = re.compile(r"Batch Size:\s*(\d+)")
_NUMBERS = tuple(name for _, *names in _SWEEP_ALIASES.values() for name in names)


class ConfigurationSweep(Importer):
    """A row is a trial. In print a row is told by its first three words; one without figures has its status alone."""

    describes = "sweeps for the best training configuration: the printed summary (.txt, .log) or its table (.csv)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix == ".csv":
            return header_of(beginning) >= _SWEEP_COLUMNS
        return _TITLE.encode() in beginning and b"Fwd(ms)" in beginning and path.suffix in (".txt", ".log", ".out")

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows, best = _sweep_of_table(text, path) if path.suffix == ".csv" else _of_print(text, path)
        machine = draft.a_machine(devices=[draft.a_device("cuda", 0, None)])
        making = draft.Draft("optimal-configuration sweep", path, sha256_of(text), machine)
        for row in rows:
            _sweep_add(making, row, best.get(_batch_of(row) or 0, ()))
        return [making.run()]


_Best = dict[int, tuple[str, ...]]


def _sweep_of_table(text: str, path: Path) -> tuple[Sequence[Mapping[str, str]], _Best]:
    rows = table_of(path, text, _SWEEP_COLUMNS)
    for line, row in enumerate(rows, 2):
        if _batch_of(row) is None:
            raise UsageError(f"{path}:{line}: the batch is a whole number")
    return rows, {}


def _of_print(text: str, path: Path) -> tuple[Sequence[Mapping[str, str]], _Best]:
    table, _, below = text.partition(_TITLE)[2].partition(_BELOW)
    rows = list(_printed_rows(table))
    if not rows:
        raise UsageError(f"{path}: no row of a benchmark below {_TITLE}")
    return rows, _chosen(below)


def _printed_rows(table: str) -> Iterator[Mapping[str, str]]:
    header: list[str] = []
    for line in table.splitlines():
        cells = line.split()
        if "Fwd(ms)" in cells:
            header = cells
        elif header and len(cells) >= 4 and cells[0].isdigit():
            columns = [name for name in _NUMBERS if name in header]
            figures, status = cells[3:-1], cells[-1]
            if len(figures) in (0, len(columns)):
                first = dict(zip(header[:3], cells[:3], strict=True))
                yield {**first, **dict(zip(columns, figures, strict=False)), "Status": status}


def _chosen(below: str) -> _Best:
    """Return what each batch size is recommended for."""
    found: _Best = {}
    what = None
    for line in below.splitlines():
        if line.rstrip().endswith(":"):
            what = next((name for mark, name in _CHOICES.items() if mark in line), None)
        if what is not None and (size := _BATCH.search(line)) is not None:
            found[int(size[1])] = (*found.get(int(size[1]), ()), what)
            what = None
    return found


def _sweep_add(making: draft.Draft, row: Mapping[str, str], best: tuple[str, ...]) -> None:
    case = _sweep_case(row)
    status = row.get("Status", "").lower()
    if any(mark in status for mark in _NOT_OK):
        memory = "oom" in status or "memory" in status
        outcome = Outcome(Status.OUT_OF_MEMORY if memory else Status.CRASHED, row.get("Status"))
        making.add(case, {}, outcome=outcome)
        return
    claimed = draft.figures_of(row, _SWEEP_ALIASES)
    making.add(case, claimed, facts=Facts(labelled_best=best))


def _batch_of(row: Mapping[str, str]) -> int | None:
    return whole(row.get("Batch"))


def _sweep_case(row: Mapping[str, str]) -> Case:
    amp = row.get("AMP", "").strip().lower()
    settings: dict[str, Scalar] = {
        "batch_size": _batch_of(row),
        "num_workers": whole(row.get("Workers")),
        "precision": "fp16" if amp in ("yes", "true", "1", "on") else "fp32" if amp else None,
    }
    return draft.a_case(Task.TRAIN, "external:unknown", settings, Placement("cuda"))


# ── distilbert_suite ─────────────────────────────────────────────────────────────────────────────────────────

# DistilBERT benchmark suites, a line a batch size: latency, throughput, memory and energy; JSON lines or CSV.

_SPEEDS: draft.Aliases = {
    "latency_per_batch_mean_s": (_MS, "latency_ms_mean", "latency_mean_ms", "mean_latency_ms", "latency_ms"),
    "latency_per_batch_p50_s": (_MS, "latency_ms_median", "latency_median_ms", "latency_ms_p50"),
    "latency_per_batch_p90_s": (_MS, "latency_ms_p90", "latency_p90_ms"),
    "latency_per_batch_p95_s": (_MS, "latency_ms_p95", "latency_p95_ms"),
    "latency_per_batch_p99_s": (_MS, "latency_ms_p99", "latency_p99_ms"),
    "latency_per_batch_min_s": (_MS, "latency_ms_min", "latency_min_ms"),
    "latency_per_batch_max_s": (_MS, "latency_ms_max", "latency_max_ms"),
    "latency_per_batch_std_s": (_MS, "latency_ms_std", "latency_std_ms"),
    "throughput": (
        1.0,
        "throughput_mean",
        "throughput_mean_sps",
        "mean_throughput_sps",
        "throughput_sps",
        "throughput",
    ),
}
_SUITE_ALIASES: draft.Aliases = {
    **_SPEEDS,
    "peak_rss_bytes": (_MIB, "cpu_memory_mb_max", "cpu_memory_max_mb", "cpu_memory_mb"),
    "device_memory_used_bytes": (_MIB, "gpu_memory_mb_max", "gpu_memory_max_mb", "gpu_memory_mb", "memory_mb"),
    "energy_j": (1.0, "gpu_energy_j", "total_energy_j", "cpu_energy_j", "energy_joules", "energy_j"),
    "average_power_w": (1.0, "gpu_avg_power_w", "cpu_avg_power_w"),
    "energy_time_s": (1.0, "measurement_time_s"),
    "power_readings": (1.0, "gpu_power_samples"),
    "steps": (1.0, "num_measurements", "iterations"),
}
_Line = Mapping[str, Any]
_OF_IMAGES = "peak_memory_MB"  # a column of GPU image benchmarks, which have a batch size and a throughput too


class DistilbertSuite(Importer):
    """A line is a trial; lines of equal settings are repetitions."""

    describes = "DistilBERT benchmark suites: cpu_results, batch_comparison, mixed_precision_results.jsonl; their CSV"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix == ".csv":
            return _has_columns(header_of(beginning))
        if path.suffix != ".jsonl":
            return False
        try:
            first = json.loads(beginning.split(b"\n", 1)[0])
        except (ValueError, RecursionError):  # no JSON, or a line longer than the beginning
            return False
        return isinstance(first, dict) and "record" not in first and _is_one(first)

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        lines, machine = _suite_of_table(text, path) if path.suffix == ".csv" else _of_lines(text, path)
        making = draft.Draft("DistilBERT benchmark suite", path, sha256_of(text), machine, lines[0].get("timestamp"))
        for line in lines:
            _suite_add(making, line)
        return [making.run()]


def _has_columns(names: Collection[str]) -> bool:
    return "device" in names and _OF_IMAGES not in names and _is_one(dict.fromkeys(names))


def _suite_of_table(text: str, path: Path) -> tuple[Sequence[_Line], Machine]:
    rows = csv_rows(text, str(path))
    if not rows or not _has_columns(rows[0]):
        raise UsageError(f"{path}: no rows, or no known columns")
    cuda = any(row.get("device", "").startswith("cuda") for row in rows)
    return rows, draft.a_machine(devices=[draft.a_device("cuda", 0, None)] if cuda else ())


def _of_lines(text: str, path: Path) -> tuple[Sequence[_Line], Machine]:
    found: list[_Line] = []
    for place, line in enumerate(io.StringIO(text), 1):  # a list of all lines may take 20 times as much
        if not line.strip():
            continue
        if len(found) == MOST_ROWS:
            raise UsageError(f"{path}: more than {MOST_ROWS} lines")
        one = part(parsed(line, f"{path}:{place}"))
        if not _is_one(one):
            raise UsageError(f"{path}:{place}: no batch_size, or neither a latency nor a throughput")
        found.append(one)
    if not found:
        raise UsageError(f"{path}: no lines")
    return found, _machine_of(found)


def _is_one(line: _Line) -> bool:
    """Say whether a line (or a row) is of such a suite."""
    known = {name for _, *names in _SPEEDS.values() for name in names}
    return "batch_size" in line and bool(known & {**line, **part(line, "metrics")}.keys())


def _suite_add(making: draft.Draft, line: _Line) -> None:
    """Add the trial of one line."""
    flat = {**line, **part(line, "metrics")}
    claimed = draft.figures_of(flat, _SUITE_ALIASES)
    case = _suite_case(line, flat)
    facts = Facts(
        parameters=whole(part(line, "model_info").get("num_parameters")),
        warmup_steps=whole(flat.get("warmup_runs")),
        device_name=_device_name(line, case.placement),
    )
    making.add(case, claimed, facts=facts)


def _device_name(line: Mapping[str, Any], placement: Placement) -> str | None:
    """Return the name of the card that a line says it ran on: lines of several machines may be in one file."""
    listed = part(line, "system_info").get("gpu_info")
    if placement.device == "cpu" or not isinstance(listed, list) or placement.index >= len(listed):
        return None
    return word(part(listed[placement.index]).get("name"))


def _machine_of(lines: Iterable[_Line]) -> Machine:
    """Return the machine that the first line that says anything of it names."""
    about = next((found for line in lines if (found := part(line, "system_info"))), {})
    listed = about.get("gpu_info")
    devices: list[DeviceInfo] = []
    for place, one in enumerate(listed if isinstance(listed, list) else ()):
        levels = part(one).get("capability")
        capability = ".".join(map(str, levels)) if isinstance(levels, list) else word(levels)
        devices.append(draft.a_device("cuda", place, word(part(one).get("name")), None, capability))
    return draft.a_machine(about, devices)


def _suite_case(line: Mapping[str, Any], flat: Mapping[str, Any]) -> Case:
    mixed = str(flat.get("mixed_precision")).lower() == "true"
    settings: dict[str, Scalar] = {
        "batch_size": whole(line.get("batch_size")),
        "sequence_length": whole(flat.get("sequence_length") or flat.get("max_length")),
        "precision": "fp16" if mixed else "fp32",
    }
    model = word(line.get("model")) or "distilbert-base-uncased"
    data = word(line.get("dataset")) or draft.UNKNOWN
    return draft.a_case(
        Task.INFER, f"hf:{model}", settings, draft.placement_from(line.get("device")), item="sequence", data=data
    )


# ── gpu_image_benchmark ──────────────────────────────────────────────────────────────────────────────────────

# The CSV of inference benchmarks on images, a row a batch size: time, throughput, latencies, the GPU's gauges.

_IMAGE_COLUMNS = frozenset({"batch_size", "total_time", "throughput", "peak_memory_MB", "avg_latency"})
_IMAGE_LATENCIES = {"mean": "avg_latency", "p95": "p95_latency", "p99": "p99_latency"}
_IMAGE_ALIASES: draft.Aliases = {
    "peak_allocated_bytes": (_MIB, "peak_memory_MB"),
    "device_memory_used_bytes": (_MIB, "gpu_mem_used"),
    "device_utilization": (0.01, "gpu_util"),
    "device_temperature_c": (1.0, "gpu_temp"),
    "average_power_w": (1.0, "gpu_power"),
}
_HOST = re.compile(r"_(?P<host>[A-Za-z][\w-]*?)_20\d{6}_\d{6}$")


class GpuImageBenchmark(Importer):
    """It is told by its header. A row is a trial."""

    describes = "CSV of GPU image benchmarks: batch_size, total_time, throughput, peak_memory_MB, avg_latency"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        return path.suffix == ".csv" and header_of(beginning) >= _IMAGE_COLUMNS

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = table_of(path, text, _IMAGE_COLUMNS)
        making = draft.Draft(
            "GPU image benchmark", path, sha256_of(text), _image_machine(rows, path), rows[0].get("timestamp")
        )
        for line, row in enumerate(rows, 2):
            _image_add(making, row, f"{path}:{line}")
        return [making.run()]


def _image_add(making: draft.Draft, row: Mapping[str, str], where: str) -> None:
    size, total_s, rate = whole(row.get("batch_size")), number(row.get("total_time")), number(row.get("throughput"))
    if size is None or size < 1 or total_s is None or rate is None:
        raise UsageError(f"{where}: batch_size is a whole number from 1 up, the time and rate are numbers")
    steps = float(math.ceil(total_s * rate / size)) if math.isfinite(total_s * rate) else None
    claimed = {
        "throughput": rate,
        "total_time_s": total_s,
        "steps": steps,
        # Latencies are those of a batch over its images there.
        **{f"latency_per_batch_{name}_s": scaled(row.get(key), size) for name, key in _IMAGE_LATENCIES.items()},
        **draft.figures_of(row, _IMAGE_ALIASES),
    }
    case = draft.a_case(
        Task.INFER,
        "hf:google/vit-base-patch16-224",
        {"batch_size": size, "image_size": 224},
        Placement("cuda"),
        item="image",
        data=word(row.get("dataset")) or draft.UNKNOWN,
    )
    making.add(case, claimed, facts=Facts(device_name=word(row.get("gpu_name"))))


def _image_machine(rows: Sequence[Mapping[str, str]], path: Path) -> Machine:
    row = rows[0]
    host = word(row.get("hostname")) or (found["host"] if (found := _HOST.search(path.stem)) else None)
    room = scaled(row.get("gpu_memory_gb"), _GIB)
    card = draft.a_device("cuda", 0, word(row.get("gpu_name")), room, word(row.get("gpu_compute_capability")))
    return draft.a_machine({"hostname": host}, [card])


# ── gpu_report ───────────────────────────────────────────────────────────────────────────────────────────────

# The JSON report of one run on one GPU: training by epochs, inference batch by batch, memory by stages.

_REPORT_MARKS = (b'"experiment_name"', b'"gpu_info"', b'"total_runtime_minutes"', b'"predictions_per_second"')
_MEMORY: draft.Aliases = {
    "allocated_bytes": (_GIB, "allocated_gb"),
    "reserved_bytes": (_GIB, "reserved_gb"),
    "peak_allocated_bytes": (_GIB, "max_allocated_gb"),
}
# What one prediction takes, in the report; with one batch size, a batch is so many of them.
_REPORT_LATENCIES = {
    "latency_per_batch_p50_s": "p50_latency",
    "latency_per_batch_p95_s": "p95_latency",
    "latency_per_batch_p99_s": "p99_latency",
    "latency_per_batch_min_s": "min_latency",
    "latency_per_batch_max_s": "max_latency",
    "latency_per_batch_mean_s": "avg_time_per_prediction",
}
_NAMED = {"nvidia": "cuda", "amd": "rocm"}  # benchmark_amd_20251029_143022.json
_Figures = dict[str, float | None]
_FLAT = (
    *_REPORT_LATENCIES.values(),
    *("predictions_per_second", "time_to_first_prediction", "total_predictions", "total_batches"),
)


class GpuReport(Importer):
    """Training, inference, or both. The form is in docs/checks.md."""

    describes = "GPU benchmark reports as JSON (benchmark_<gpu>_<time>.json)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or b'"record"' in beginning[:64] or not beginning.lstrip().startswith(b"{"):
            return False
        return b'"benchmarks"' not in beginning and sum(mark in beginning for mark in _REPORT_MARKS) >= 2

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        made = _run(part(parsed(text, str(path))), path, text)
        if not made.trials:
            raise UsageError(f"{path}: neither training nor inference is in this report")
        return [made]


def _run(found: Mapping[str, Any], path: Path, text: str) -> Run:
    """Return the run of a report; without trials where it has neither training nor inference."""
    machine = draft.a_machine(part(found, "system_info"), tuple(_devices(found)))
    making = draft.Draft("GPU benchmark report", path, sha256_of(text), machine, found.get("timestamp"))
    placement = _placement(found, path)
    model, about = word(part(found, "model").get("architecture")) or draft.UNKNOWN, part(found, "data")
    settings: dict[str, Scalar] = {"sequence_length": whole(about.get("sequence_length"))}
    facts = Facts(
        parameters=whole(part(found, "model").get("num_parameters")),
        test_items=whole(about.get("test_samples")),
        data_classes=whole(about.get("num_classes")),
        total_runtime_s=_runtime_s(found),
    )
    training, learnt = _training(found), _reached(found)
    inference = part(found, "inference")
    summary = part(inference, "summary") or inference or {k: v for k, v in found.items() if k in _FLAT}
    trained = (training["throughput"], training["epoch_time_s"], learnt.epochs, learnt.final_train_accuracy)
    if any(value is not None for value in trained):
        case = draft.a_case(Task.TRAIN, f"external:{model}", settings, placement)
        items = Facts(dataset_items=whole(about.get("train_samples")))
        making.add(case, training | _memory(found), facts=merged(facts, items, learnt))
    if summary:
        answering = draft.a_case(Task.INFER, f"external:{model}", settings, placement)
        _add_inference(making, answering, inference.get("batches"), summary, facts, flat=not inference)
    return making.run(word(found.get("experiment_name")))


def _devices(found: Mapping[str, Any]) -> Iterator[DeviceInfo]:
    listed = part(found, "gpu_info").get("devices")
    for place, one in enumerate(listed if isinstance(listed, list) else ()):
        about = part(one)
        kind = "rocm" if "amd" in str(about.get("vendor")).lower() else "cuda"
        room = scaled(about.get("total_memory_gb"), _GIB)
        index = whole(about.get("index"))
        yield draft.a_device(
            kind,
            place if index is None else index,
            word(about.get("name")),
            room,
            word(about.get("compute_capability")),
        )


def _placement(found: Mapping[str, Any], path: Path) -> Placement:
    first = next(_devices(found), None)
    if first is not None:
        return Placement(first.kind, first.index)
    named = (kind for vendor, kind in _NAMED.items() if f"_{vendor}_" in path.name.lower())
    return Placement(next(named, "cpu"))


def _training(found: Mapping[str, Any]) -> _Figures:
    training, rates = part(found, "training"), part(found, "throughput")
    summary = part(training, "summary") or found
    epochs, each_s = number(summary.get("total_epochs")), number(summary.get("avg_epoch_time"))
    samples = number(part(found, "data").get("train_samples"))
    whole_known = None not in (epochs, each_s, samples)
    return {
        "throughput": number(rates.get("training", found.get("throughput"))),
        "epoch_time_s": each_s,
        "total_items": samples * epochs if whole_known and samples and epochs else None,
        "total_time_s": each_s * epochs if whole_known and each_s and epochs else None,
        "loss_first": number(summary.get("initial_loss")),
        "loss_last": number(summary.get("final_loss")),
    }


def _runtime_s(found: Mapping[str, Any]) -> float | None:
    seconds = number(found.get("total_runtime_seconds"))
    return seconds if seconds is not None else scaled(found.get("total_runtime_minutes"), 60.0)


def _reached(found: Mapping[str, Any]) -> Facts:
    """Return the epochs, and the accuracies as shares: in the report they are percentages."""
    training = part(found, "training")
    summary = part(training, "summary") or found
    trained = summary.get("final_accuracy", found.get("final_train_accuracy"))
    tested = training.get("final_test_accuracy", found.get("test_accuracy"))
    return Facts(
        epochs=whole(summary.get("total_epochs")),
        final_train_accuracy=scaled(trained, 0.01),
        final_test_accuracy=scaled(tested, 0.01),
    )


def _memory(found: Mapping[str, Any]) -> _Figures:
    stages = part(found, "memory")
    last = part(stages, "after_training") or next(reversed([part(s) for s in stages.values() if part(s)]), stages)
    return draft.figures_of(last, _MEMORY)


def _add_inference(
    making: draft.Draft,
    case: Case,
    batches: object,
    summary: Mapping[str, Any],
    facts: Facts,
    *,
    flat: bool,
) -> None:
    """Add a Case for each batch size, and where they differ one of what is said of all of them together."""
    by_size: dict[int, list[float]] = {}
    for one in batches if isinstance(batches, list) else ():
        size, took_s = whole(part(one).get("batch_size")), number(part(one).get("total_time"))
        if size is not None and size > 0 and took_s is not None:
            by_size.setdefault(size, []).append(took_s)
    single = len(by_size) == 1
    for size, times in by_size.items():
        sized = _sized(case, {"batch_size": size})
        claimed = _claimed(summary, float(size)) if single else {}
        making.add(sized, claimed, draft.closed_loop(times, float(size)), facts)
    if not single:
        total_s = sum(sum(times) for times in by_size.values()) or None
        claimed = _claimed(summary, None, 1e-3 if flat else 1.0)
        making.add(_sized(case, {"batch_sizes": "mixed"}), {**claimed, "total_time_s": total_s}, facts=facts)


def _sized(case: Case, more: Mapping[str, Scalar]) -> Case:
    workload = case.workload
    return draft.a_case(workload.task, workload.model, {**case.configuration, **more}, case.placement)


def _claimed(summary: Mapping[str, Any], size: float | None, unit_s: float = 1.0) -> _Figures:
    """Return what is said; times are those of a prediction: without one batch size they say nothing of a batch."""
    rate = summary.get("avg_predictions_per_second", summary.get("predictions_per_second"))
    first = summary.get("avg_time_to_first_prediction", summary.get("time_to_first_prediction"))
    found: _Figures = {
        "throughput": number(rate),
        "steps": number(summary.get("total_batches")),
        "total_items": number(summary.get("total_predictions")),
        "time_to_first_prediction_s": scaled(first, unit_s),
    }
    if size is None:
        return {**found, "time_per_item_s": scaled(summary.get("avg_time_per_prediction"), unit_s)}
    return found | {figure: scaled(summary.get(key), size) for figure, key in _REPORT_LATENCIES.items()}


# ── training_tree ────────────────────────────────────────────────────────────────────────────────────────────

# Training benchmarks as a JSON tree: family → model → hardware → configuration, with times, losses and memory.

_KEY = re.compile(r"batch_(?P<batch>\d+)_seq_(?P<seq>\d+)_lr_(?P<lr>[\d.e+-]+)_opt_(?P<opt>\w+?)_accum_(?P<accum>\d+)")
_OK = ("completed", "success", "ok")
_STATISTICS = ("min", "max", "mean", "std")
_TREE = (b'"system_info"', b'"benchmarks"')
_TREE_MARKS = (b'"training_results"', b'"performance_summary"', b'"model_load_time"')


class TrainingTree(Importer):
    """A Case for each configuration on each hardware. The form is in docs/checks.md."""

    describes = "training benchmark trees as JSON: family → model → hardware → configuration"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or b'"record"' in beginning[:64] or not beginning.lstrip().startswith(b"{"):
            return False
        return all(mark in beginning for mark in _TREE) and any(mark in beginning for mark in _TREE_MARKS)

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = part(parsed(text, str(path)))
        making = draft.Draft(
            "training benchmark tree", path, sha256_of(text), _tree_machine(found), found.get("timestamp")
        )
        for family, models in part(found, "benchmarks").items():
            for model, hardware in part(models).items():
                for kind, about in part(hardware).items():
                    _tree_add(
                        making,
                        word(family),
                        f"hf:{word(model) or draft.UNKNOWN}",
                        draft.placement_from(kind),
                        part(about),
                    )
        made = making.run()
        if not made.trials:
            raise UsageError(f"{path}: no tree of benchmarks: family → model → hardware")
        return [made]


def _tree_machine(found: Mapping[str, Any]) -> Machine:
    """Return the machine. Its GPU has no name there: only that there was one."""
    about = part(found, "system_info")
    named = word(about.get("gpu_name")) or word(about.get("cuda_device_name"))
    devices = [draft.a_device("cuda", 0, named)] if about.get("cuda_available") else []
    return draft.a_machine(about, devices)


def _tree_add(
    making: draft.Draft, family: str | None, model: str, placement: Placement, about: Mapping[str, Any]
) -> None:
    results = part(about, "training_results")
    load_s = number(about.get("model_load_time"))
    for key, result in results.items():
        result = part(result)  # noqa: PLW2901  the object, or an empty one
        case = _tree_case(str(key), result, model, placement, family)
        if result.get("status", "completed") not in _OK:
            making.add(case, {}, outcome=_failed(result))
            continue
        claimed, measured = _figures(result, case, load_s)
        making.add(case, claimed, measured, Facts(distributed=result.get("distributed") is True))
    if not results:
        making.add(draft.a_case(Task.TRAIN, model, {}, placement, family=family), {}, outcome=_failed(about))


def _failed(about: Mapping[str, Any]) -> Outcome:
    said = word(about.get("error")) or word(about.get("status")) or "no results"
    memory = "out of memory" in said.lower() or said.lower() == "oom"
    return Outcome(Status.OUT_OF_MEMORY if memory else Status.CRASHED, said)


def _tree_case(key: str, result: Mapping[str, Any], model: str, placement: Placement, family: str | None) -> Case:
    said = match.groupdict() if (match := _KEY.search(key)) else {}
    size, pulls = (
        result.get("batch_size", said.get("batch")),
        result.get("gradient_accumulation_steps", said.get("accum")),
    )
    settings: dict[str, Scalar] = {
        "batch_size": whole(size),
        "sequence_length": whole(said.get("seq")),
        "learning_rate": number(said.get("lr")),
        "optimizer": said.get("opt"),
        "grad_accumulation": whole(pulls),
        "precision": "fp16" if result.get("mixed_precision") is True else "fp32",
    }
    return draft.a_case(Task.TRAIN, model, settings, placement, item="sequence", family=family)


def _figures(
    result: Mapping[str, Any], case: Case, load_s: float | None
) -> tuple[dict[str, float | None], list[Measurement]]:
    times, losses, memory = (part(result, name) for name in ("training_time", "loss", "memory_usage"))
    size = number(case.configuration.get("batch_size"))  # the result's own, or that of its key
    claimed: dict[str, float | None] = {f"step_time_{name}": number(times.get(name)) for name in _STATISTICS}
    claimed |= {f"loss_{name}": number(losses.get(name)) for name in _STATISTICS}
    claimed |= {
        "peak_allocated_bytes": scaled(memory.get("max"), _MIB),
        "throughput": number(result.get("throughput")),
        "mean_allocated_bytes": scaled(memory.get("mean"), _MIB),
        "loss_convergence_rate": number(result.get("loss_convergence_rate")),
        "model_load_time_s": load_s,
        # An iteration is one pass, whether its gradients are accumulated or not.
        "items_per_step": size,
    }
    steps = numbers(times.get("per_iteration"))
    measured = draft.back_to_back(steps, size) if steps else []
    return claimed, [*measured, draft.steady_values("loss", numbers(losses.get("per_iteration")))]


PLUGINS: Mapping[str, Importer] = {
    "configuration_sweep": ConfigurationSweep(),
    "distilbert_suite": DistilbertSuite(),
    "gpu_image_benchmark": GpuImageBenchmark(),
    "gpu_report": GpuReport(),
    "training_tree": TrainingTree(),
}
