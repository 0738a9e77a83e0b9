"""CSV of three benchmarking scripts: images on GPUs, a sweep for the best training settings, a DistilBERT suite."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _distilbert, _sweep_table
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._reading import digest, number, rows_of, scaled, text_of, whole, word
from torchstone.plugins.protocols import Importer

_MIB, _GIB = 2.0**20, 2.0**30
_IMAGES = ("batch_size", "total_time", "throughput", "peak_memory_MB", "avg_latency")
_HOST = re.compile(r"_(?P<host>[A-Za-z][\w-]*?)_20\d{6}_\d{6}$")


class SeedCsv:
    """Which of the three is told by the header."""

    describes = "CSV of GPU image benchmarks, of optimal-configuration sweeps, and of DistilBERT suites"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        header = beginning.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
        return path.suffix == ".csv" and _form([name.strip() for name in header.split(",")]) is not None

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = rows_of(text, str(path))
        form = _form(list(rows[0])) if rows else None
        if form is None:
            raise UsageError(f"{path}: no rows, or no known columns")
        return [_READ[form](rows, path, digest(text))]


def _form(names: Sequence[str]) -> str | None:
    if {"run_id", "case_id"} <= set(names):  # a table of torchstone's own: its record says more
        return None
    if set(_IMAGES) <= set(names):
        return "images"
    if set(_sweep_table.COLUMNS) <= set(names):
        return "sweep"
    return "suite" if _distilbert.is_one(dict.fromkeys(names)) and "device" in names else None


def _images(rows: Sequence[Mapping[str, str]], path: Path, sha256: str) -> Run:
    machine = _machine(rows, path)
    making = draft.Draft("GPU image benchmark", path, sha256, machine, rows[0].get("timestamp"))
    for line, row in enumerate(rows, 2):
        size, total_s, rate = whole(row.get("batch_size")), number(row.get("total_time")), number(row.get("throughput"))
        if size is None or size < 1 or total_s is None or rate is None:
            raise UsageError(f"{path}:{line}: batch_size is a whole number from 1 up, the time and rate are numbers")
        known = math.isfinite(total_s * rate)
        steps = float(math.ceil(total_s * rate / size)) if known else None
        claimed = {
            "throughput": rate, "total_time_s": total_s, "steps": steps,
            # Latencies are those of a batch over its images there.
            "latency_per_batch_mean_s": scaled(row.get("avg_latency"), size),
            "latency_per_batch_p95_s": scaled(row.get("p95_latency"), size),
            "latency_per_batch_p99_s": scaled(row.get("p99_latency"), size),
            "peak_allocated_bytes": scaled(row.get("peak_memory_MB"), _MIB),
            "device_memory_used_bytes": scaled(row.get("gpu_mem_used"), _MIB),
            "device_utilization": scaled(row.get("gpu_util"), 0.01),
            "device_temperature_c": number(row.get("gpu_temp")), "average_power_w": number(row.get("gpu_power")),
        }  # fmt: skip
        data = word(row.get("dataset")) or draft.UNKNOWN
        settings = {"batch_size": size, "image_size": 224}
        case = draft.a_case(
            Task.INFER, "hf:google/vit-base-patch16-224", settings, Placement("cuda"), item="image", data=data
        )
        making.add(case, claimed, facts={"device_name": word(row.get("gpu_name"))})
    return making.run()


def _machine(rows: Sequence[Mapping[str, str]], path: Path) -> Machine:
    row = rows[0]
    host = word(row.get("hostname")) or (found["host"] if (found := _HOST.search(path.stem)) else None)
    room = scaled(row.get("gpu_memory_gb"), _GIB)
    card = draft.a_device("cuda", 0, word(row.get("gpu_name")), room, word(row.get("gpu_compute_capability")))
    return draft.a_machine(host=host, devices=[card])


def _sweep(rows: Sequence[Mapping[str, str]], path: Path, sha256: str) -> Run:
    machine = draft.a_machine(devices=[draft.a_device("cuda", 0, None)])
    making = draft.Draft("optimal-configuration sweep", path, sha256, machine)
    for line, row in enumerate(rows, 2):
        if _sweep_table.batch_of(row) is None:
            raise UsageError(f"{path}:{line}: the batch is a whole number")
        _sweep_table.add(making, row)
    return making.run()


def _suite(rows: Sequence[Mapping[str, str]], path: Path, sha256: str) -> Run:
    cuda = any(row.get("device", "").startswith("cuda") for row in rows)
    machine = draft.a_machine(devices=[draft.a_device("cuda", 0, None)] if cuda else [])
    making = draft.Draft("DistilBERT benchmark suite", path, sha256, machine, rows[0].get("timestamp"))
    for row in rows:
        _distilbert.add(making, row)
    return making.run()


_READ = {"images": _images, "sweep": _sweep, "suite": _suite}

PLUGIN: Importer = SeedCsv()
