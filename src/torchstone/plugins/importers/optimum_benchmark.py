"""optimum-benchmark: benchmark.json, or benchmark_report.json with the benchmark_config.json beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import digest, number, numbers, parsed, part, scaled, text_of, whole, word
from torchstone.plugins.protocols import Importer

_MB, _KWH = 1e6, 3.6e6
_MEMORY: draft.Aliases = {
    "peak_rss_bytes": (_MB, "max_ram"),
    "device_memory_used_bytes": (_MB, "max_global_vram"),
    "peak_reserved_bytes": (_MB, "max_reserved"),
    "peak_allocated_bytes": (_MB, "max_allocated"),
}
_MOST_PROCESSES = 100_000
_MAIN = ("train", "forward", "generate", "call", "decode", "overall")  # the first there is has the steady steps
_LOADING, _FIRST = ("load_model", "load"), ("first_forward", "first_generate", "first_call")
_CONFIG = "benchmark_config.json"
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")


class OptimumBenchmark(Importer):
    """Its raw values are kept; what it says of them are claims."""

    describes = "optimum-benchmark: benchmark.json, benchmark_report.json"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix != ".json" or path.name == _CONFIG or not beginning.lstrip().startswith(b"{"):
            return False
        return b'"stdev_"' in beginning or (b'"optimum_benchmark_version"' in beginning and b'"launcher"' in beginning)

    def read(self, path: Path) -> Sequence[Run]:
        found = parsed(text_of(path), str(path))
        report, config = part(found, "report") or part(found), part(found, "config")
        beside = path.with_name(_CONFIG)
        if not config and beside.is_file() and not beside.is_symlink():
            config = part(parsed(text_of(beside), str(beside)))
        main = next((name for name in _MAIN if part(report, name, "latency")), None)
        if main is None:
            raise UsageError(f"{path}: no target with a latency ({', '.join(_MAIN)})")
        # The tool writes both forms side by side: they are one run.
        sha256 = digest(json.dumps([config, report], sort_keys=True))
        version = word(part(config, "environment").get("optimum_benchmark_version"))
        making = draft.Draft(f"optimum-benchmark {version or ''}".strip(), path, sha256, _machine(config))
        case = _case(config, training=main in ("train", "overall"))
        launcher = word(part(config, "launcher").get("name"))
        several = launcher == "torchrun" and _processes(config) != (1, 1)
        items = _items(case, several=several)
        claimed, measured = _figures(report, main, case, items)
        about: dict[str, Scalar] = {
            "model_library": word(part(config, "backend").get("library")),
            "launcher": launcher,
        }
        # Versions differ in whether a rate is that of a process, their mean or their sum.
        facts = Facts(
            rate_unclear=True if several else None,
            other={name: value for name, value in about.items() if value is not None},
        )
        making.add(case, claimed, measured, facts)
        return [making.run(word(config.get("name")))]


def _machine(config: Mapping[str, Any]) -> Machine:
    about = part(config, "environment")
    listed = about.get("gpu")
    names: list[Any] = listed if isinstance(listed, list) else []
    kind = draft.placed(part(config, "backend").get("device"), amd=_amd(config)).device
    room = scaled(about.get("gpu_vram_mb"), _MB)
    each = room / max(1, len(names)) if room is not None else None  # it is that of all together
    devices = [draft.a_device(kind, i, word(name), each) for i, name in enumerate(names)] if kind != "cpu" else []
    software = {name.removesuffix("_version"): word(v) for name, v in about.items() if name.endswith("_version")}
    return draft.a_machine(
        {"platform": about.get("platform"), "processor": about.get("cpu"), "cpu_count": about.get("cpu_count")},
        devices,
        scaled(about.get("cpu_ram_mb"), _MB),
        {**software, "torch": word(part(config, "backend").get("version"))},
    )


def _amd(config: Mapping[str, Any]) -> bool:
    names = part(config, "environment").get("gpu")
    return isinstance(names, list) and any("AMD" in str(n) or "Radeon" in str(n) or "Instinct" in str(n) for n in names)


def _case(config: Mapping[str, Any], *, training: bool) -> Case:
    backend, scenario = part(config, "backend"), part(config, "scenario")
    shapes, asked = part(scenario, "input_shapes"), part(scenario, "training_arguments")
    made = part(scenario, "generate_kwargs")
    task = Task.TRAIN if training else Task.GENERATE if backend.get("task") == "text-generation" else Task.INFER
    format_ = backend.get("autocast_dtype") if backend.get("autocast_enabled") else None
    settings: dict[str, Scalar] = {
        "batch_size": whole(asked.get("per_device_train_batch_size") if training else shapes.get("batch_size")),
        "sequence_length": whole((part(scenario, "dataset_shapes") if training else shapes).get("sequence_length")),
        "new_tokens": whole(made.get("max_new_tokens")) if task == Task.GENERATE else None,
        "grad_accumulation": whole(asked.get("gradient_accumulation_steps")) if training else None,
        "precision": draft.precision_of(format_ or backend.get("torch_dtype") or backend.get("dtype")),
        "compile": "default" if backend.get("torch_compile") else None,
    }
    model = word(backend.get("model")) or draft.UNKNOWN
    item = "image" if "image" in str(backend.get("task")) else "sequence"
    placement = draft.placed(backend.get("device"), amd=_amd(config))
    count, nodes = _processes(config) or (1, 1)
    placement = Placement(placement.device, placement.index, count, nodes)
    return draft.a_case(task, f"hf:{model}", settings, placement, item=item, data="synthetic")


def _processes(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return (processes a node, nodes) of torchrun, a device each; one without it; None where the file does not say."""
    launcher = part(config, "launcher")
    if launcher.get("name") != "torchrun":
        return 1, 1
    count, nodes = whole(launcher.get("nproc_per_node")), whole(launcher.get("max_nodes", 1))
    if count is None or nodes is None or not (0 < count <= _MOST_PROCESSES and 0 < nodes <= _MOST_PROCESSES):
        return None
    return count, nodes


def _items(case: Case, *, several: bool) -> float | None:
    """Return the items of a step; None where the file does not say.

    Of several processes it does not: versions differ in whether these share the batch or have one each.
    """
    size, pulls = case.configuration.get("batch_size"), case.configuration.get("grad_accumulation")
    if not isinstance(size, int) or several:
        return None
    return float(size) * float(pulls if isinstance(pulls, int) else 1)


def _figures(
    report: Mapping[str, Any], main: str, case: Case, items: float | None
) -> tuple[dict[str, float | None], list[Measurement]]:
    latency = part(report, main, "latency")
    values = numbers(latency.get("values"))
    training = case.workload.task == Task.TRAIN
    words = "step_time_{}" if training else "latency_per_batch_{}_s"
    claimed: dict[str, float | None] = {
        words.format(name): number(latency.get(name)) for name in _STATISTICS if not training or name == "mean"
    }
    claimed |= {words.format("std"): number(latency.get("stdev")), "total_time_s": number(latency.get("total"))}
    if training:
        claimed["step_time_p50"] = number(latency.get("p50"))
    claimed["steps"] = number(latency.get("count"))
    rate = part(report, main, "throughput")
    tokens = str(rate.get("unit")).startswith("token")  # of decode, it says
    claimed["output_token_throughput" if tokens else "throughput"] = number(rate.get("value"))
    claimed |= draft.figures_of(part(report, main, "memory"), _MEMORY) | _energy(part(report, main, "energy"), items)
    measured = draft.back_to_back(values, items) if training else draft.closed_loop(values, items)
    measured.append(draft.steady("time_to_first_token_s", numbers(part(report, "prefill", "latency").get("values"))))
    warm = numbers(part(report, "warmup", "latency").get("values"))
    measured.append(Measurement("step_time_s", Stage.WARMUP, warm))
    for metric, targets in (("model_load_time_s", _LOADING), ("first_step_time_s", _FIRST)):
        took = next((v for t in targets if (v := numbers(part(report, t, "latency").get("values")))), ())
        measured.append(Measurement(metric, Stage.SETUP, took[:1]))
    return claimed, measured


def _energy(energy: Mapping[str, Any], items: float | None) -> dict[str, float | None]:
    """Return the energy of one step's items: that is what the tool divides by."""
    each = scaled(energy.get("total"), _KWH / items) if items else None
    return {"energy_per_item_j": each}


PLUGIN: Importer = OptimumBenchmark()
