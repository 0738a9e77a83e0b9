"""Results of other tools that measure models, calls and kernels in their own process."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
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
    bytes_of,
    csv_rows,
    documents,
    header_of,
    listed,
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
        sha256 = sha256_of(json.dumps([config, report], sort_keys=True))
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
    kind = draft.placement_from(part(config, "backend").get("device"), amd=_amd(config)).device
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
    placement = draft.placement_from(backend.get("device"), amd=_amd(config))
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
    measured.append(
        draft.steady_values("time_to_first_token_s", numbers(part(report, "prefill", "latency").get("values")))
    )
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
            sha256_of(text),
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
    return draft.a_case(Task.INFER, f"pytest:{name}", settings, draft.placement_from(given.get("device")), item="call")


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


def _of_text(value: object) -> Scalar:
    """Return a parameter as a setting, a whole number also where a text spells it."""
    known = whole(value)
    return known if known is not None else _setting(value)


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
        rows = csv_rows(text, str(path))
        if not rows:
            raise UsageError(f"{path}: no rows below the header")
        said = _NAME.search(path.name)
        about = said.groupdict() if said else {}
        placement = Placement("cpu" if about.get("processor") else "cuda")
        making = draft.Draft("timm benchmark.py", path, sha256_of(text), _timm_machine(about))
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


# ── llama_bench ──────────────────────────────────────────────────────────────────────────────────────────────

# llama.cpp's tools/llama-bench/llama-bench.cpp (fields as of early 2026): -o json, jsonl, csv and sql.
#   n_prompt, n_gen           tokens of a repetition: a prompt in passes of n_batch, or texts token by token, or both
#   samples_ns                of each repetition, waited for at its end; not in CSV and SQL
#   avg_ns, stddev_ns         of those
#   samples_ts, avg_ts        (n_prompt + n_gen) / time of each, and the mean of these rates
# Before them, unless --no-warmup: one prompt, and one token of a text. All other fields are settings.

_LLAMA = frozenset(("n_prompt", "n_gen", "avg_ns", "avg_ts"))
_NO_SETTINGS = frozenset(
    (
        *("build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type"),
        *("model_size", "model_n_params", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts"),
        *("samples_ns", "samples_ts"),
    )
)
_AXES = {"n_prompt": "sequence_length", "n_gen": "new_tokens", "n_threads": "threads"}
_BACKENDS = {"CUDA": "cuda", "ROCm": "rocm", "HIP": "rocm", "Metal": "mps", "MTL": "mps", "SYCL": "xpu"}
_HOSTS = ("CPU", "BLAS")
_INSERT = re.compile(r"INSERT INTO llama_bench \(([^()]*)\) VALUES \('(.*)'\);")


class LlamaBench(Importer):
    """A prompt or a text is an item; a repetition is an answer of a closed loop."""

    describes = "llama-bench: -o json, jsonl, csv, sql"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        if path.suffix == ".csv":
            return header_of(beginning) >= _LLAMA
        if path.suffix == ".sql":
            return b"INSERT INTO llama_bench" in beginning
        return beginning.lstrip()[:1] in (b"[", b"{") and b'"n_gen"' in beginning and b'"avg_ts"' in beginning

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        rows = _llama_rows(path, text)
        if not rows or not all(isinstance(row, dict) and row.keys() >= _LLAMA for row in rows):
            raise UsageError(f"{path}: no results of llama-bench, or one without {', '.join(sorted(_LLAMA))}")
        kind, first = _llama_device(rows[0]), rows[0]
        devices = () if kind == "cpu" else (draft.a_device(kind, 0, word(first.get("gpu_info"))),)
        software = {"llama.cpp": word(str(first.get("build_commit") or ""))}
        machine = draft.a_machine({"processor": first.get("cpu_info")}, devices, software=software)
        making = draft.Draft("llama-bench", path, sha256_of(text), machine, first.get("test_time"))
        for row in rows:
            _add_llama(making, row)
        return [making.run()]


def _llama_rows(path: Path, text: str) -> list[Any]:
    if path.suffix == ".csv":
        return list(table_of(path, text, _LLAMA))
    if text.lstrip()[:1] in ("[", "{"):
        found = documents(text, str(path))
        return found[0] if len(found) == 1 and isinstance(found[0], list) else found
    rows: list[Any] = []
    for place, line in enumerate(io.StringIO(text), 1):
        if (row := _INSERT.match(line)) is None:
            continue
        fields, cells = row[1].split(", "), row[2].split("', '")  # the tool escapes nothing
        if len(fields) != len(cells) or len(rows) == draft.MOST_ROWS:
            raise UsageError(f"{path}:{place}: {len(cells)} values of {len(fields)} fields, or too many rows")
        rows.append(dict(zip(fields, cells, strict=True)))
    return rows


def _llama_device(row: Mapping[str, Any]) -> str:
    names = [name.strip() for name in str(row.get("backends") or "").split(",")]
    found = next((ours for name, ours in _BACKENDS.items() for said in names if said.startswith(name)), None)
    return found or ("cpu" if all(name in _HOSTS for name in names) else draft.UNKNOWN)


def _add_llama(making: draft.Draft, row: Mapping[str, Any]) -> None:
    prompt, made = number(row["n_prompt"]) or 0.0, number(row["n_gen"]) or 0.0
    settings = {_AXES.get(name, name): _of_text(value) for name, value in row.items() if name not in _NO_SETTINGS}
    case = draft.a_case(
        Task.GENERATE,
        f"gguf:{word(row.get('model_type')) or draft.UNKNOWN}",
        settings,
        Placement(_llama_device(row)),
        item="sequence",
        data="synthetic",
    )
    rate = number(row["avg_ts"])
    claimed = {
        "latency_per_batch_mean_s": scaled(row["avg_ns"], 1e-9),
        "latency_per_batch_std_s": scaled(row.get("stddev_ns"), 1e-9),
        "throughput": rate / (prompt + made) if rate is not None and prompt + made > 0.0 else None,
        "items_per_step": 1.0,
        "token_throughput": rate,
        "output_token_throughput": rate if prompt == 0.0 else None,
        "prompt_token_throughput": rate if made == 0.0 else None,
    }
    times = tuple(t * 1e-9 for t in numbers(row.get("samples_ns")))
    measured = draft.closed_loop(times, 1.0)
    if prompt > 0.0 and made == 0.0:
        measured += [
            draft.steady_values("tokens", [prompt] * len(times), "latency"),
            draft.steady_values("time_to_first_token_s", times, "latency"),
        ]
    elif made > 0.0 and prompt == 0.0:
        measured.append(draft.steady_values("time_per_output_token_s", [t / made for t in times], "latency"))
    making.add(
        case, claimed, measured, Facts(parameters=whole(row.get("model_n_params")), new_tokens=whole(made) or None)
    )


# ── nvbench ──────────────────────────────────────────────────────────────────────────────────────────────────

# NVBench 0.3 (commit 66212f1), nvbench/json_printer.cu: --json, and --jsonbin with the times of the samples in files
# beside it. File version 1; numbers of summaries are texts; times in seconds.
#   nv/cold/...        kernels one by one, the cache of the device flushed before each: times by CUDA events
#   nv/batch/...       kernels back to back, the mean of all
#   nv/cpu_only/...    what runs on the host
#   nv/json/bin:nv/cold/sample_times    the name of a file of little-endian 32-bit floats, and how many
# Deviations of less than 5 samples are infinite: that is none.

_KERNELS: Mapping[str, tuple[str, str]] = {  # by figure: the tag below nv/cold and below nv/cpu_only
    "latency_per_batch_mean_s": ("time/gpu/mean", "time/cpu/mean"),
    "latency_per_batch_p50_s": ("time/gpu/median", "time/cpu/median"),
    "latency_per_batch_min_s": ("time/gpu/min", "time/cpu/min"),
    "latency_per_batch_max_s": ("time/gpu/max", "time/cpu/max"),
    "latency_per_batch_std_s": ("time/gpu/stdev/absolute", "time/cpu/stdev/absolute"),
    "steps": ("sample_size", "sample_size"),
    "throughput": ("bw/item_rate", "bw/item_rate"),
    "device_clock_hz": ("sm_clock_rate/mean", "sm_clock_rate/mean"),
}


class NvBench(Importer):
    """A state of a benchmark is a Case; what was skipped is a trial that was."""

    describes = "NVBench: --json, --jsonbin"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        start = beginning.lstrip()
        return path.suffix == ".json" and start.startswith(b"{") and b'"nvbench"' in start and b'"sm_version"' in start

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        found = parsed(text, str(path))
        version = part(found, "meta", "version")
        if whole(part(version, "json").get("major")) != 1:
            raise UsageError(f"{path}: not version 1 of NVBench's JSON, which alone can be read")
        tool = f"NVBench {word(part(version, 'nvbench').get('string')) or ''}".strip()
        devices = [
            draft.a_device("cuda", index, word(one.get("name")), number(one.get("global_memory_size")))
            for one in map(part, listed(part(found).get("devices")))
            if (index := whole(one.get("id"))) is not None
        ]
        making = draft.Draft(tool, path, sha256_of(text), draft.a_machine(devices=devices))
        for benchmark, state in _states(part(found).get("benchmarks")):
            _add_nvbench(making, path, word(benchmark.get("name")) or draft.UNKNOWN, state)
        run = making.run()
        if not run.trials:
            raise UsageError(f"{path}: no benchmark has a state")
        return [run]


def _states(benchmarks: object) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for benchmark in map(part, listed(benchmarks)):
        for state in map(part, listed(benchmark.get("states"))):
            yield benchmark, state


def _named_values(values: object) -> dict[str, Any]:
    """Return the values of a list of {name, type, value}."""
    return {str(one.get("name")): one.get("value") for one in map(part, listed(values))}


def _add_nvbench(making: draft.Draft, path: Path, name: str, state: Mapping[str, Any]) -> None:
    tags = {str(one.get("tag")): _named_values(one.get("data")) for one in map(part, listed(state.get("summaries")))}
    host = "nv/cold/sample_size" not in tags and "nv/cpu_only/sample_size" in tags
    under = "nv/cpu_only" if host else "nv/cold"
    said = {figure: number(tags.get(f"{under}/{both[host]}", {}).get("value")) for figure, both in _KERNELS.items()}
    said["step_time_mean"] = number(tags.get("nv/batch/time/gpu/mean", {}).get("value"))
    spread = said["latency_per_batch_std_s"]
    said["latency_per_batch_std_s"] = spread if spread is not None and math.isfinite(spread) else None
    settings = {word(axis) or draft.UNKNOWN: _of_text(v) for axis, v in _named_values(state.get("axis_values")).items()}
    item = "call" if said["throughput"] is None else "element"
    if item == "call" and (mean_s := said["latency_per_batch_mean_s"]):
        said["throughput"] = 1.0 / mean_s  # it gives no rate of calls, which are one by one
    place = Placement("cpu") if host else Placement("cuda", min(whole(state.get("device")) or 0, 1024))
    case = draft.a_case(Task.CALL, f"nvbench:{name}", settings, place, item=item)
    if state.get("is_skipped") is True:
        making.add(case, {}, outcome=Outcome(Status.SKIPPED, word(state.get("skip_reason")) or ""))
        return
    times = _samples_of(path, tags.get(f"nv/json/bin:{under}/sample_times", {}))
    making.add(case, said, draft.closed_loop(times, None if item == "element" else 1.0))


def _samples_of(path: Path, about: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the times in the file that NVBench wrote beside its JSON; none where it is not there, or not as told."""
    name, count = str(about.get("filename")), whole(about.get("size"))
    file = path.parent / f"{path.name}-bin" / name.rpartition("/")[2]
    if count is None or not file.name.removesuffix(".bin").isdigit() or file.is_symlink() or not file.is_file():
        return ()
    data = bytes_of(file)
    if len(data) != 4 * count:
        return ()
    times = array("f", data)
    if sys.byteorder == "big":
        times.byteswap()
    return tuple(times)


# ── transformers_benchmark ───────────────────────────────────────────────────────────────────────────────────

# transformers' benchmark_v2 (main of early 2026; framework/data_classes.py, benchmark_runner.py): an object of
# hash: {metadata, measurements, config}. Times in seconds, a value an iteration, after warmup_iterations:
#   e2e_latency               a call of generate() with batch_size prompts, num_tokens_to_generate tokens each
#   time_to_first_token       the first of the batch
#   timestamps                of the tokens of each sequence, since the call; null unless asked for
#   inter_token_latency       (last - first) / (timestamps - 1); older: / timestamps. Those of generate(), which are of
#                             one sequence, have one more at its end: it divides by a gap too many, and older by two
# So the time per token is taken from the times of the tokens, or of the rest of the call; the tool's own is a claim.
# Not in the file: weights are bfloat16; each prompt is one text cut to sequence_length, which some 400 tokens reach.

_PROMPT = 256  # tokens that it surely has


class TransformersBenchmark(Importer):
    """A configuration is a Case; its raw values are kept."""

    describes = "transformers benchmark_v2: <model>_benchmark_<time>.json"

    def recognises(self, path: Path, beginning: bytes) -> bool:
        names = (b'"hardware_info"', b'"e2e_latency"', b'"inter_token_latency"')
        return path.suffix == ".json" and beginning.lstrip().startswith(b"{") and all(n in beginning for n in names)

    def read(self, path: Path) -> Sequence[Run]:
        text = text_of(path)
        entries = [part(one) for one in part(parsed(text, str(path))).values()]
        if not entries or not all(part(one, "measurements") and part(one, "config") for one in entries):
            raise UsageError(f"{path}: no results of benchmark_v2, or one without measurements or config")
        about = part(entries[0], "metadata", "hardware_info")
        name, kind = word(about.get("gpu_name")), _kind_of(about.get("gpu_name"))
        memory = scaled(about.get("gpu_memory_total_gb"), 2.0**30)
        devices = () if kind == "cpu" else (draft.a_device(kind, 0, name, memory),)
        begun = part(entries[0], "metadata").get("timestamp")
        making = draft.Draft("transformers benchmark_v2", path, sha256_of(text), draft.a_machine(about, devices), begun)
        for one in entries:
            _add_transformers(making, one, Placement(kind))
        return [making.run()]


def _kind_of(name: object) -> str:
    """Return the kind of the device that torch names so; its CPU where it names none."""
    said = str(name or "").lower()
    if not said:
        return "cpu"
    return "rocm" if "amd" in said or "instinct" in said else "xpu" if "intel" in said else "cuda"


def _add_transformers(making: draft.Draft, entry: Mapping[str, Any], placement: Placement) -> None:
    about, config, found = part(entry, "metadata"), part(entry, "config"), part(entry, "measurements")
    size, made = whole(config.get("batch_size")), whole(config.get("num_tokens_to_generate"))
    compiled = part(config, "compile_kwargs").get("mode", config.get("compile_mode"))
    settings: dict[str, Scalar] = {
        "batch_size": size,
        "sequence_length": whole(config.get("sequence_length")),
        "new_tokens": made,
        "precision": "bf16",
        "compile": word(compiled) or ("default" if part(config, "compile_kwargs") else "off"),
        "attn_implementation": word(config.get("attn_implementation")),
        "continuous_batching": True if config.get("continuous_batching") is True else None,
        "kernelize": True if config.get("kernelize") is True else None,
    }
    length = whole(config.get("sequence_length"))
    data = "synthetic:full" if length is not None and length <= _PROMPT else draft.UNKNOWN
    model = f"hf:{word(about.get('model_id')) or draft.UNKNOWN}"
    case = draft.a_case(Task.GENERATE, model, settings, placement, item="sequence", data=data)
    whole_s, first = numbers(found.get("e2e_latency")), numbers(found.get("time_to_first_token"))
    if about.get("success") is False or not whole_s:
        making.add(case, {}, outcome=Outcome(Status.CRASHED, "the tool says no more"))
        return
    said = numbers(found.get("inter_token_latency"))
    measured = draft.closed_loop(whole_s, float(size) if size is not None else None)
    measured.append(draft.steady_values("time_to_first_token_s", first, "latency"))
    each = _per_token(found.get("timestamps"), whole_s, first, made or 0)
    measured.append(draft.steady_values("time_per_output_token_s", each, "latency"))
    used = [v for one in listed(found.get("gpu_metrics")) for v in numbers(part(one).get("memory_used"))]
    claimed = {
        "time_per_output_token_mean_s": fmean(said) if said else None,
        "device_memory_used_bytes": max(used) * 2.0**30 if used else None,
    }
    making.add(case, claimed, measured, Facts(new_tokens=made))


def _per_token(stamps: object, whole_s: Sequence[float], first: Sequence[float], made: int) -> list[float]:
    """Return the mean time between the tokens of each call: of their times, or of the call after its first token."""
    if made < 2 or len(first) != len(whole_s):
        return []
    calls = [[numbers(sequence) for sequence in listed(call)] for call in listed(stamps)]
    if len(calls) == len(whole_s) and all(call and all(len(s) >= made for s in call) for call in calls):
        return [fmean((s[made - 1] - s[0]) / (made - 1) for s in call) for call in calls]
    return [(t - begun) / (made - 1) for t, begun in zip(whole_s, first, strict=True)]


PLUGINS: Mapping[str, Importer] = {
    "llama_bench": LlamaBench(),
    "nvbench": NvBench(),
    "optimum_benchmark": OptimumBenchmark(),
    "pytest_benchmark": PytestBenchmark(),
    "timm": Timm(),
    "transformers_benchmark": TransformersBenchmark(),
}
