"""The JSON report of one run on one GPU: training by epochs, inference batch by batch, memory by stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, number, parsed, part, scaled, text_of, whole, word
from torchstone.plugins.protocols import Importer

_GIB = 2.0**30
_MARKS = (b'"experiment_name"', b'"gpu_info"', b'"total_runtime_minutes"', b'"predictions_per_second"')
_MEMORY: draft.Aliases = {
    "allocated_bytes": (_GIB, "allocated_gb"),
    "reserved_bytes": (_GIB, "reserved_gb"),
    "peak_allocated_bytes": (_GIB, "max_allocated_gb"),
}
# What one prediction takes, in the report; with one batch size, a batch is so many of them.
_LATENCIES = {
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
    *_LATENCIES.values(),
    *("predictions_per_second", "time_to_first_prediction", "total_predictions", "total_batches"),
)


class GpuReport(Importer):
    """Training, inference, or both. The form is in docs/checks.md."""

    describes = "GPU benchmark reports as JSON (benchmark_<gpu>_<time>.json)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or b'"record"' in beginning[:64] or not beginning.lstrip().startswith(b"{"):
            return False
        return b'"benchmarks"' not in beginning and sum(mark in beginning for mark in _MARKS) >= 2

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        made = _run(part(parsed(text, str(path))), path, text)
        if not made.trials:
            raise UsageError(f"{path}: neither training nor inference is in this report")
        return [made]


def _run(found: Mapping[str, Any], path: Path, text: str) -> Run:
    """Return the run of a report; without trials where it has neither training nor inference."""
    machine = draft.a_machine(part(found, "system_info"), tuple(_devices(found)))
    making = draft.Draft("GPU benchmark report", path, digest(text), machine, found.get("timestamp"))
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
    return found | {figure: scaled(summary.get(key), size) for figure, key in _LATENCIES.items()}


PLUGIN: Importer = GpuReport()
