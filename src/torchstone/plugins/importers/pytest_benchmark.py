"""pytest-benchmark: what --benchmark-json and --benchmark-save write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, number, numbers, parsed, part, text_of, whole, word
from torchstone.plugins.protocols import Importer

_FIGURES = {
    "mean": "latency_per_batch_mean_s",
    "median": "latency_per_batch_p50_s",
    "min": "latency_per_batch_min_s",
    "max": "latency_per_batch_max_s",
    "stddev": "latency_per_batch_std_s",
    "total": "total_time_s",
    "rounds": "steps",
    "ops": "throughput",
}


class PytestBenchmark(Importer):
    """A benchmark is a Case of calls; its rounds are the answers of a closed loop, where the file has them."""

    describes = "pytest-benchmark: --benchmark-json, --benchmark-save"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        return (
            path.suffix == ".json"
            and b'"benchmarks"' in beginning
            and (b'"hd15iqr"' in beginning or b'"stddev_outliers"' in beginning or b'"min_rounds"' in beginning)
        )

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = parsed(text, str(path))
        benchmarks = found.get("benchmarks") if isinstance(found, dict) else None
        if not isinstance(benchmarks, list) or not benchmarks:
            raise UsageError(f"{path}: no benchmarks")
        version = word(found.get("version"))
        making = draft.Draft(
            f"pytest-benchmark {version or ''}".strip(), path, digest(text), _machine(found), found.get("datetime")
        )
        for place, one in enumerate(benchmarks):
            stats = part(one, "stats")
            if not stats:
                raise UsageError(f"{path}: benchmark {place} has no stats")
            case = _case(part(one))
            size = case.configuration.get("batch_size")
            claimed = {figure: number(stats.get(word_)) for word_, figure in _FIGURES.items()}
            # It counts calls: a call of 8 items is one operation.
            items = float(size) if isinstance(size, int) else 1.0
            if claimed["throughput"] is not None:
                claimed["throughput"] *= items
            about: dict[str, Scalar] = {
                "iterations_a_round": whole(stats.get("iterations")),
                "group": word(part(one).get("group")),
            }
            facts = Facts(other={name: value for name, value in about.items() if value is not None})
            making.add(case, claimed, draft.closed_loop(numbers(stats.get("data")), items), facts)
        return [making.run(word(part(found, "commit_info").get("project")))]


def _machine(found: Mapping[str, Any]) -> Machine:
    about, cpu = part(found, "machine_info"), part(found, "machine_info", "cpu")
    system, release = word(about.get("system")), word(about.get("release"))
    processor = word(cpu.get("brand_raw")) or word(cpu.get("brand")) or word(about.get("processor"))
    return draft.a_machine(
        {
            "hostname": about.get("node"),
            "platform": "-".join(p for p in (system, release) if p),
            "processor": processor,
            "cpu_count": cpu.get("count"),
            "python_version": about.get("python_version"),
        }
    )


def _case(one: Mapping[str, Any]) -> Case:
    given = {**part(one, "params"), **part(one, "extra_info")}
    settings: dict[str, Scalar] = {}
    for name, value in given.items():
        if name != "device" and (said := _setting(value)) is not None:
            settings[word(name) or draft.UNKNOWN] = said
    # One axis spelt as a text is that axis all the same.
    if (size := whole(settings.get("batch_size"))) is not None and "batch_size" in AXES:
        settings["batch_size"] = size
    name = word(one.get("fullname")) or word(one.get("name")) or draft.UNKNOWN
    return draft.a_case(Task.INFER, f"pytest:{name}", settings, draft.placed(given.get("device")), item="call")


def _setting(value: object) -> Scalar:
    """Return a parameter as a setting; None for what is none: a list, or a number that cannot be one."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    found = number(value) if isinstance(value, float) else None
    return found if found is not None and math.isfinite(found) else None


PLUGIN: Importer = PytestBenchmark()
