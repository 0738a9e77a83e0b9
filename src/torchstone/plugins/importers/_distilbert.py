"""Lines and rows of DistilBERT benchmark suites: one of a batch size, with latency, throughput, memory and energy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._reading import number, part, scaled, whole, word

_MIB = 2.0**20
_MS = 1e-3
# figure, its factor, and the names that versions of the suite have for it
_NAMES: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("latency_per_batch_mean_s", _MS, ("latency_ms_mean", "latency_mean_ms", "mean_latency_ms", "latency_ms")),
    ("latency_per_batch_p50_s", _MS, ("latency_ms_median", "latency_median_ms", "latency_ms_p50")),
    ("latency_per_batch_p90_s", _MS, ("latency_ms_p90", "latency_p90_ms")),
    ("latency_per_batch_p95_s", _MS, ("latency_ms_p95", "latency_p95_ms")),
    ("latency_per_batch_p99_s", _MS, ("latency_ms_p99", "latency_p99_ms")),
    ("latency_per_batch_min_s", _MS, ("latency_ms_min", "latency_min_ms")),
    ("latency_per_batch_max_s", _MS, ("latency_ms_max", "latency_max_ms")),
    ("latency_per_batch_std_s", _MS, ("latency_ms_std", "latency_std_ms")),
    (
        "throughput",
        1.0,
        ("throughput_mean", "throughput_mean_sps", "mean_throughput_sps", "throughput_sps", "throughput"),
    ),
    ("peak_rss_bytes", _MIB, ("cpu_memory_mb_max", "cpu_memory_max_mb", "cpu_memory_mb")),
    ("device_memory_used_bytes", _MIB, ("gpu_memory_mb_max", "gpu_memory_max_mb", "gpu_memory_mb", "memory_mb")),
    ("energy_j", 1.0, ("gpu_energy_j", "total_energy_j", "cpu_energy_j", "energy_joules", "energy_j")),
    ("average_power_w", 1.0, ("gpu_avg_power_w", "cpu_avg_power_w")),
    ("energy_time_s", 1.0, ("measurement_time_s",)),
    ("power_readings", 1.0, ("gpu_power_samples",)),
    ("steps", 1.0, ("num_measurements", "iterations")),
)


def is_one(line: Mapping[str, Any]) -> bool:
    """Say whether a line (or a row) is of such a suite."""
    known = {name for _, _, names in _NAMES[:9] for name in names}
    return "batch_size" in line and bool(known & {**line, **part(line, "metrics")}.keys())


def add(making: draft.Draft, line: Mapping[str, Any]) -> None:
    """Add the trial of one line."""
    flat = {**line, **part(line, "metrics")}
    claimed = {figure: _first(flat, names, factor) for figure, factor, names in _NAMES}
    case = _case(line, flat)
    facts: dict[str, Scalar] = {
        "parameters": number(part(line, "model_info").get("num_parameters")),
        "warmup_steps": whole(flat.get("warmup_runs")), "device_name": _device_name(line, case.placement),
    }  # fmt: skip
    making.add(case, claimed, facts=facts)


def _device_name(line: Mapping[str, Any], placement: Placement) -> str | None:
    """Return the name of the card that a line says it ran on: lines of several machines may be in one file."""
    listed = part(line, "system_info").get("gpu_info")
    if placement.device == "cpu" or not isinstance(listed, list) or placement.index >= len(listed):
        return None
    return word(part(listed[placement.index]).get("name"))


def machine_of(lines: Iterable[Mapping[str, Any]]) -> Machine:
    """Return the machine that the first line that says anything of it names."""
    about = next((found for line in lines if (found := part(line, "system_info"))), {})
    listed = about.get("gpu_info")
    devices: list[DeviceInfo] = []
    for place, one in enumerate(listed if isinstance(listed, list) else ()):
        levels = part(one).get("capability")
        capability = ".".join(map(str, levels)) if isinstance(levels, list) else word(levels)
        devices.append(draft.a_device("cuda", place, word(part(one).get("name")), None, capability))
    software = {"torch": word(about.get("torch_version")), "python": word(about.get("python_version")),
                "cuda": word(about.get("cuda_version"))}  # fmt: skip
    return draft.a_machine(
        host=word(about.get("hostname")), platform=word(about.get("platform")), processor=word(about.get("processor")),
        cores=whole(about.get("cpu_count")), devices=devices, software=software,
    )  # fmt: skip


def _case(line: Mapping[str, Any], flat: Mapping[str, Any]) -> Case:
    mixed = str(flat.get("mixed_precision")).lower() == "true"
    settings: dict[str, Scalar] = {
        "batch_size": whole(line.get("batch_size")),
        "sequence_length": whole(flat.get("sequence_length") or flat.get("max_length")),
        "precision": "fp16" if mixed else "fp32",
    }
    model = word(line.get("model")) or "distilbert-base-uncased"
    data = word(line.get("dataset")) or draft.UNKNOWN
    return draft.a_case(
        Task.INFER, f"hf:{model}", settings, draft.placed(line.get("device")), item="sequence", data=data
    )


def _first(flat: Mapping[str, Any], names: Iterable[str], factor: float) -> float | None:
    return next((v for name in names if (v := scaled(flat.get(name), factor)) is not None), None)
