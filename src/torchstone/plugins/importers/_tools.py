"""Results of other tools: optimum-benchmark, pytest-benchmark and timm's benchmark.py."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Outcome, Stage, Status
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers._draft import (
    digest,
    number,
    numbers,
    parsed,
    part,
    rows_of,
    scaled,
    text_of,
    whole,
    word,
)
from torchstone.plugins.protocols import Importer

# ── optimum_benchmark ────────────────────────────────────────────────────────────────────────────────────────

# optimum-benchmark: benchmark.json, or benchmark_report.json with the benchmark_config.json beside it.

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
        making = draft.Draft(f"optimum-benchmark {version or ''}".strip(), path, sha256, _optimum_machine(config))
        case = _optimum_case(config, training=main in ("train", "overall"))
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


def _optimum_machine(config: Mapping[str, Any]) -> Machine:
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


def _optimum_case(config: Mapping[str, Any], *, training: bool) -> Case:
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


# ── pytest_benchmark ─────────────────────────────────────────────────────────────────────────────────────────

# pytest-benchmark: what --benchmark-json and --benchmark-save write.

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
            f"pytest-benchmark {version or ''}".strip(),
            path,
            digest(text),
            _pytest_machine(found),
            found.get("datetime"),
        )
        for place, one in enumerate(benchmarks):
            stats = part(one, "stats")
            if not stats:
                raise UsageError(f"{path}: benchmark {place} has no stats")
            case = _pytest_case(part(one))
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


def _pytest_machine(found: Mapping[str, Any]) -> Machine:
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


def _pytest_case(one: Mapping[str, Any]) -> Case:
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


# ── timm ─────────────────────────────────────────────────────────────────────────────────────────────────────

# timm's benchmark.py: its results CSV, a row a model, with the columns infer_* and train_*.

_TASKS = {"infer": Task.INFER, "train": Task.TRAIN}
_PHASES = {"fwd": "phase_forward_s", "bwd": "phase_backward_s", "opt": "phase_optimizer_s"}
# What the archive's file names say: benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv
_NAME = re.compile(
    r"benchmark-(?:infer|train)-(?P<precision>\w+)-(?P<layout>nchw|nhwc)-pt(?P<torch>\d+)"
    r"-(?:cu(?P<cuda>\d+)-(?P<card>[^-.]+)|cpu-(?P<processor>[^-.]+))(?P<dynamo>-dynamo)?"
)
_GEFORCE = re.compile(r"(?:rtx)?(\d{4})(ti)?")


class Timm(Importer):
    """It keeps no spread and no raw values: all is what it says. The card is in the file's name, or nowhere."""

    describes = "timm benchmark.py: results CSV (infer_*, train_*)"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        header = beginning.split(b"\n", 1)[0]
        return header.startswith(b"model,") and (
            b"infer_samples_per_sec" in header or b"train_samples_per_sec" in header
        )

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = rows_of(text, str(path))
        if not rows:
            raise UsageError(f"{path}: no rows below the header")
        said = _NAME.search(path.name)
        about = said.groupdict() if said else {}
        placement = Placement("cpu" if about.get("processor") else "cuda")
        making = draft.Draft("timm benchmark.py", path, digest(text), _timm_machine(about))
        settings: dict[str, Scalar] = {
            "precision": draft.precision_of(about.get("precision")),
            "compile": "default" if about.get("dynamo") else None,
            "channels_last": "on" if about.get("layout") == "nhwc" else None,
        }
        for line, row in enumerate(rows, 2):
            _add(making, row, settings, placement, f"{path}:{line}")
        made = making.run()
        if not made.trials:
            raise UsageError(f"{path}: no row has a batch size and a rate, or an error")
        return [made]


def _timm_machine(about: Mapping[str, str | None]) -> Machine:
    card = about.get("card")
    if card and (known := _GEFORCE.fullmatch(card)) is not None:
        card = f"NVIDIA GeForce RTX {known[1]}{' Ti' if known[2] else ''}"
    devices = () if about.get("processor") else (draft.a_device("cuda", 0, card),)
    return draft.a_machine({**about, "torch_version": _version(about.get("torch") or "")}, devices)


def _version(digits: str) -> str | None:
    """Return the version that 240, 1121 or 113 stands for: before 2.0 the second number has two digits."""
    if len(digits) < 3:
        return None
    if digits.startswith("1"):
        return ".".join(("1", digits[1:3], *digits[3:]))
    return f"{digits[0]}.{digits[1:-1]}.{digits[-1]}"


def _add(
    making: draft.Draft, row: Mapping[str, str], settings: Mapping[str, Scalar], placement: Placement, where: str
) -> None:
    name = word(row.get("model"))
    if name is None:
        raise UsageError(f"{where}: no model")
    failed = word(row.get("error"))
    for prefix, task in _TASKS.items():
        size = whole(row.get(f"{prefix}_batch_size"))
        rate = number(row.get(f"{prefix}_samples_per_sec"))
        if size is None or rate is None:
            continue
        own = {"batch_size": size, "image_size": whole(row.get(f"{prefix}_img_size")), **settings}
        case = draft.a_case(task, f"timm:{name}", own, placement, item="image", data="synthetic")
        macs = number(row.get(f"{prefix}_gmacs"))
        step_s = scaled(row.get(f"{prefix}_step_time"), 1e-3)
        flops = 2e9 * macs * size if macs is not None else None
        claimed = {
            "throughput": rate,
            "step_time_mean": step_s,
            "flops_per_step": flops,
            "achieved_flops": flops / step_s if flops and step_s else None,
            **{figure: scaled(row.get(f"{prefix}_{phase}_time"), 1e-3) for phase, figure in _PHASES.items()},
        }
        making.add(case, claimed, facts=Facts(parameters=whole(scaled(row.get("param_count"), 1e6))))
        failed = None
    if failed is not None:
        case = draft.a_case(Task.INFER, f"timm:{name}", settings, placement, item="image", data="synthetic")
        status = Status.OUT_OF_MEMORY if "out of memory" in failed.lower() else Status.CRASHED
        making.add(case, {}, outcome=Outcome(status, failed))


PLUGINS: Mapping[str, Importer] = {
    "optimum_benchmark": OptimumBenchmark(),
    "pytest_benchmark": PytestBenchmark(),
    "timm": Timm(),
}
