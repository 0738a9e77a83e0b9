"""The CSV of inference benchmarks on images, a row a batch size: time, throughput, latencies, the GPU's gauges."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, header_of, number, scaled, table_of, text_of, whole, word
from torchstone.plugins.protocols import Importer

_MIB, _GIB = 2.0**20, 2.0**30
_COLUMNS = frozenset({"batch_size", "total_time", "throughput", "peak_memory_MB", "avg_latency"})
_LATENCIES = {"mean": "avg_latency", "p95": "p95_latency", "p99": "p99_latency"}
_ALIASES: draft.Aliases = {
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
        return path.suffix == ".csv" and header_of(beginning) >= _COLUMNS

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = table_of(path, text, _COLUMNS)
        making = draft.Draft("GPU image benchmark", path, digest(text), _machine(rows, path), rows[0].get("timestamp"))
        for line, row in enumerate(rows, 2):
            _add(making, row, f"{path}:{line}")
        return [making.run()]


def _add(making: draft.Draft, row: Mapping[str, str], where: str) -> None:
    size, total_s, rate = whole(row.get("batch_size")), number(row.get("total_time")), number(row.get("throughput"))
    if size is None or size < 1 or total_s is None or rate is None:
        raise UsageError(f"{where}: batch_size is a whole number from 1 up, the time and rate are numbers")
    steps = float(math.ceil(total_s * rate / size)) if math.isfinite(total_s * rate) else None
    claimed = {
        "throughput": rate,
        "total_time_s": total_s,
        "steps": steps,
        # Latencies are those of a batch over its images there.
        **{f"latency_per_batch_{name}_s": scaled(row.get(key), size) for name, key in _LATENCIES.items()},
        **draft.figures_of(row, _ALIASES),
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


def _machine(rows: Sequence[Mapping[str, str]], path: Path) -> Machine:
    row = rows[0]
    host = word(row.get("hostname")) or (found["host"] if (found := _HOST.search(path.stem)) else None)
    room = scaled(row.get("gpu_memory_gb"), _GIB)
    card = draft.a_device("cuda", 0, word(row.get("gpu_name")), room, word(row.get("gpu_compute_capability")))
    return draft.a_machine({"hostname": host}, [card])


PLUGIN: Importer = GpuImageBenchmark()
