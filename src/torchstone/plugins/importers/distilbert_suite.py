"""DistilBERT benchmark suites, a line a batch size: latency, throughput, memory and energy; JSON lines or CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import (
    MOST_ROWS,
    digest,
    header_of,
    parsed,
    part,
    rows_of,
    text_of,
    whole,
    word,
)
from torchstone.plugins.protocols import Importer

_MS, _MIB = 1e-3, 2.0**20
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
_ALIASES: draft.Aliases = {
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
        lines, machine = _of_table(text, path) if path.suffix == ".csv" else _of_lines(text, path)
        making = draft.Draft("DistilBERT benchmark suite", path, digest(text), machine, lines[0].get("timestamp"))
        for line in lines:
            _add(making, line)
        return [making.run()]


def _has_columns(names: Collection[str]) -> bool:
    return "device" in names and _OF_IMAGES not in names and _is_one(dict.fromkeys(names))


def _of_table(text: str, path: Path) -> tuple[Sequence[_Line], Machine]:
    rows = rows_of(text, str(path))
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


def _add(making: draft.Draft, line: _Line) -> None:
    """Add the trial of one line."""
    flat = {**line, **part(line, "metrics")}
    claimed = draft.figures_of(flat, _ALIASES)
    case = _case(line, flat)
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


PLUGIN: Importer = DistilbertSuite()
