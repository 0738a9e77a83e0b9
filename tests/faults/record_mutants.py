"""Bugs of records: claims, counters and names that are wrong. Each is a sound record with one change."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from build import a_machine, a_run, a_trial
from clean import a_clean_run

from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import IMPORTED, Run
from torchstone.core.schema.trial import Measurement, Series, Stage, Trial

GIB = 2**30
A100 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA A100-SXM4-80GB", 79 * GIB)
BATCH, STEPS, STEP_S, WATTS = 32, 700, 0.01, 300.0
_RNG = random.Random(11)
TIMES = tuple(tuple(round(STEP_S * math.exp(_RNG.gauss(0.0, 0.2)), 9) for _ in range(STEPS)) for _ in range(3))


def a_claiming(
    claimed: Mapping[str, float | None] | None = None,
    *,
    device: DeviceInfo | None = A100,
    raw: bool = True,
    task: Task = Task.INFER,
    configuration: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    steady: Mapping[str, Sequence[float]] | None = None,
    series: Sequence[Series] = (),
    more: Sequence[Measurement] = (),
    count: int = 1,
) -> Run:
    """An imported run of three trials whose claims follow from their steps, but for what is changed."""
    workload = Workload(task, "hf:bert", "synthetic", "sequence")
    settings = {"batch_size": BATCH, "precision": "bf16", "sequence_length": 128, **(configuration or {})}
    case = Case(workload, settings, Placement("cuda", 0, count))
    trials = []
    for number, times in enumerate(TIMES):
        ordered, total = sorted(times), math.fsum(times)
        mean = total / STEPS
        said: dict[str, float | None] = {
            "latency_per_batch_mean_s": mean, "latency_per_batch_p50_s": ordered[STEPS // 2],
            "latency_per_batch_p90_s": ordered[int(0.9 * STEPS)], "latency_per_batch_p99_s": ordered[int(0.99 * STEPS)],
            "latency_per_batch_min_s": ordered[0], "latency_per_batch_max_s": ordered[-1],
            "latency_per_batch_std_s": math.sqrt(math.fsum((t - mean) ** 2 for t in times) / STEPS),
            "steps": float(STEPS), "throughput": count * BATCH / mean, "total_time_s": total,
            "total_items": float(count * BATCH * STEPS), "average_power_w": WATTS, "energy_j": WATTS * total,
            "energy_per_item_j": WATTS * total / (BATCH * STEPS * count), "peak_reserved_bytes": 6e9,
            "device_temperature_c": 61.0, "device_utilization": 0.93, "achieved_flops": 1e14 + number * 1e10,
            "mfu": (1e14 + number * 1e10) / 312e12,
        }  # fmt: skip
        for name, value in (claimed or {}).items():
            before = said.get(name)
            said[name] = value if before is None or value is None else value * before
        held = {f"claimed_{name}": value for name, value in said.items() if value is not None}
        trials.append(
            a_trial(
                times if raw else (), window="latency", items=count * BATCH, case_id=case.case_id, series=series,
                trial_id=f"t{number}", number=number, order=number, steady=steady, more=more,
                facts={"imported_from": "a tool", "task": str(task), **(facts or {}), **held},
            )
        )  # fmt: skip
    procedure = Procedure(isolation=IMPORTED)
    machine = a_machine(devices=() if device is None else (device,))
    return a_run(trials, cases=[case], machine=machine, procedure=procedure)


def sound_record() -> Run:
    """The record without a bug: what it claims follows from what it holds."""
    return a_claiming()


def times(name: str, factor: float, **how: Any) -> Callable[[], Run]:
    """The record in which one claim is so many times what it should be."""
    return lambda: a_claiming({name: factor}, **how)


def said(**claimed: float | None) -> Callable[[], Run]:
    """The record with these further claims, or with fewer (None)."""
    return lambda: a_claiming(claimed)


def with_series(**gauges: Sequence[float]) -> Callable[[], Run]:
    at_s = tuple(0.5 * i for i in range(24))
    series = [Series(metric, "nvml", at_s, tuple(values), "a card") for metric, values in gauges.items()]
    return lambda: a_claiming(series=series)


def losses(**claimed: float) -> Callable[[], Run]:
    return lambda: a_claiming({f"loss_{name}": value for name, value in claimed.items()})


def phases(total: float, task: Task = Task.TRAIN, **parts: float) -> Callable[[], Run]:
    """A table of phases, in ms, and what it calls their total."""
    said_s: dict[str, float | None] = {f"phase_{name}_s": 1e-3 * value for name, value in parts.items()}
    return lambda: a_claiming({**said_s, "anatomy_step_s": 1e-3 * total}, task=task, raw=False)


def copied_case() -> Run:
    """The file of batch 32 under the name of batch 64."""
    run = a_claiming()
    case = run.head.plan.cases[0]
    other = Case(case.workload, {**case.configuration, "batch_size": 64}, case.placement)
    twins = tuple(msgspec.structs.replace(t, case_id=other.case_id, trial_id=f"{t.trial_id}b") for t in run.trials)
    plan = msgspec.structs.replace(run.head.plan, cases=(case, other))
    return Run(msgspec.structs.replace(run.head, plan=plan), run.trials + twins, (), run.end)


def best_of_all() -> Run:
    """Seed 2: the best efficiency is not the best of its own table."""
    cases, trials = [], []
    workload = Workload(Task.TRAIN, "external:unknown", "unknown", "sample")
    for number, (size, rate, gb) in enumerate(((64, 895.5, 0.72), (2048, 4096.7, 14.25), (4096, 4447.8, 27.85))):
        case = Case(workload, {"batch_size": size}, Placement("cuda"))
        claimed = {"throughput": rate, "device_memory_used_bytes": gb * 1e9}
        facts: dict[str, Any] = {f"claimed_{name}": value for name, value in claimed.items()}
        facts |= {"labelled_best": ("efficiency",)} if size == 2048 else {}
        cases.append(case)
        trials.append(a_trial((), case_id=case.case_id, trial_id=f"t{number}", facts=facts))
    return a_run(trials, cases=cases, machine=a_machine(devices=(A100,)), procedure=Procedure(isolation=IMPORTED))


def same_time_for_every_batch(flops_an_item: float | None = 2.2e10) -> Run:
    """Launches, timed: 1 item and 128 take the same time. BERT needs so many operations for 128 tokens."""
    cases, trials = [], []
    workload = Workload(Task.INFER, "hf:bert", "synthetic", "sequence")
    for number, size in enumerate((1, 16, 128)):
        case = Case(workload, {"batch_size": size}, Placement("cuda"))
        cases.append(case)
        step_s = 4.1e-4 * (1.0 + 0.01 * number)
        facts = {"claimed_latency_per_batch_mean_s": step_s, "claimed_throughput": size / step_s}
        facts |= {"claimed_flops_per_step": flops_an_item * size} if flops_an_item is not None else {}
        trials.append(a_trial((), case_id=case.case_id, trial_id=f"t{number}", facts=facts))
    return a_run(trials, cases=cases, machine=a_machine(devices=(A100,)), procedure=Procedure(isolation=IMPORTED))


def own(
    fingerprints: Sequence[tuple[Mapping[str, Any], Sequence[float]]], task: Task = Task.INFER
) -> Callable[[], Run]:
    """A run of ours with one Case for each configuration, which computed that fingerprint in each of three trials."""

    def make() -> Run:
        cases: list[Case] = []
        trials: list[Trial] = []
        for configuration, values in fingerprints:
            case = Case(Workload(task, "hf:bert", "synthetic", "sequence"), configuration, Placement("cpu"))
            cases.append(case)
            for number in range(3):
                steps = [t * (1.0 + 1e-5 * len(trials)) for t in TIMES[number]]
                trials.append(
                    a_trial(steps, items=configuration["batch_size"], case_id=case.case_id, number=number,
                            trial_id=f"t{len(trials)}", steady={"fingerprint": values}, facts={"task": str(task)})
                )  # fmt: skip
        return a_run(trials, cases=cases)

    return make


def reversed_window() -> Run:
    return a_claiming(more=[Measurement("window_span_s", Stage.STEADY, (9.0, 4.0), "another")])


def disturbed(**per_s: float) -> Callable[[], Run]:
    return with_series(**{metric: [0.5 * i * rate for i in range(24)] for metric, rate in per_s.items()})


def one_trial_of_three() -> Run:
    """A clean run of ours, cut to one trial a case."""
    run = a_clean_run(1)
    return msgspec.structs.replace(run, trials=tuple(t for t in run.trials if t.number == 0))


_GPU_80 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA A100-SXM4-80GB", 24 * GIB)
_PB = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "Tesla T4", 16106127360 * 10**6)
_NAMELESS = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "unknown", 24 * GIB)
_SIZES = ({"batch_size": 8, "precision": "fp32"}, {"batch_size": 16, "precision": "fp32"})
_HALF = ({"batch_size": 8, "precision": "fp32"}, {"batch_size": 8, "precision": "bf16"})

Make = Callable[[], Run]
# What it is, whose it was, the check that must find it, and the run.
RECORDS: tuple[tuple[str, str, str, Make], ...] = (
    ("all steps' items over the time of one", "optimum-benchmark, training", "wrong_rate", times("throughput", STEPS)),
    ("batch size counted twice", "a reviewed script", "wrong_rate", times("throughput", BATCH)),
    ("batches for items", "pytest-benchmark's ops", "wrong_rate", times("throughput", 1 / BATCH)),
    ("devices counted twice", "Megatron-LM #1565", "wrong_rate", times("throughput", 8.0, count=8)),
    ("tokens for sequences", "optimum-benchmark, generate", "wrong_rate", times("throughput", 128.0)),
    ("ms taken for s in a rate", "codecarbon-like slips", "wrong_rate", times("throughput", 1e3)),
    ("rate a minute", "a reviewed script", "wrong_rate", times("throughput", 60.0)),
    ("mean of rates", "SuperBench model_base.py, DeepLearningExamples #1264, seed 4", "wrong_rate",
     lambda: a_claiming({"throughput": _mean_of_rates()})),
    ("half again as fast", "an unexplained rate", "wrong_rate", times("throughput", 1.5)),
    ("median above p99", "M5", "out_of_order", times("latency_per_batch_p50_s", 4.0)),
    ("minimum above mean", "M5", "out_of_order", times("latency_per_batch_min_s", 5.0)),
    ("loss minimum above maximum", "seed 3's sample", "out_of_order", losses(min=2.3456, max=1.2345, mean=1.789)),
    ("error of the mean as deviation", "M5", "out_of_order", times("latency_per_batch_std_s", 1 / math.sqrt(STEPS))),
    ("deviation above the range", "M5", "out_of_order", times("latency_per_batch_std_s", 20.0)),
    ("mean in ms beside raw s", "M5", "wrong_summary", times("latency_per_batch_mean_s", 1e3)),
    ("total below the sum of its steps", "DeepSpeed autotuner", "wrong_summary", times("total_time_s", 0.8)),
    ("percentile of another sample", "M5", "wrong_summary", times("latency_per_batch_p90_s", 1.3)),
    ("zero energy", "codecarbon #1316", "zero_for_missing", times("energy_j", 0.0)),
    ("zero power", "a driver that answers 0", "zero_for_missing", with_series(device_power_w=[0.0] * 24)),
    ("zero temperature", "seed 4's CSV", "zero_for_missing", times("device_temperature_c", 0.0)),
    ("zero memory", "optimum-benchmark's max_process_vram", "zero_for_missing", times("peak_reserved_bytes", 0.0)),
    ("kW for W", "codecarbon #286", "impossible_energy", times("average_power_w", 1e3)),
    ("energy a hundred times too large", "codecarbon #117", "impossible_energy", times("energy_j", 100.0)),
    ("energy above limit × time", "M5", "impossible_energy",
     with_series(device_power_w=[300.0] * 24, device_power_limit_w=[250.0] * 24)),
    ("Wh for J", "M5", "impossible_energy", times("energy_j", 1 / 3600.0)),
    ("counter against power", "zeus #181: 187 J and 327 J", "impossible_energy",
     with_series(device_power_w=[300.0] * 24, device_energy_j=[0.5 * i * 171.0 for i in range(24)])),
    ("counter runs backwards", "amdsmi #115", "impossible",
     with_series(device_energy_j=[100.0 - i for i in range(24)])),
    ("one reading of power", "seed 4's energy.py", "impossible_energy", said(power_readings=1.0)),
    ("MFU above 1", "nanoGPT #464: 104 %", "faster_than_peak", times("mfu", 3.3)),
    ("sparse peak", "Lightning #21743, torchtitan #1393", "faster_than_peak", said(peak_flops=624e12)),
    ("MFU of the sparse peak", "Lightning #21743", "faster_than_peak", times("mfu", 0.5)),
    ("peak of another card", "nanochat #60, autoresearch #5", "faster_than_peak", said(peak_flops=989.4e12)),
    ("faster than the card", "fms-fsdp #89", "faster_than_peak", times("achieved_flops", 8.0)),
    ("more memory than the card", "M5", "beyond_device", times("peak_reserved_bytes", 20.0)),
    ("memory of the card in another unit", "optimum-benchmark's gpu_vram_mb", "beyond_device",
     lambda: a_claiming(device=_PB)),
    ("utilization of 9,300 %", "a percentage for a share", "beyond_device", times("device_utilization", 100.0)),
    ("clock in kHz", "M5", "beyond_device", said(device_clock_hz=1.4e12)),
    ("card without a name", "torchgeo-bench #292, seed 3", "device_unclear", lambda: a_claiming(device=_NAMELESS)),
    ("no card at all", "torchgeo-bench #292", "device_unclear", lambda: a_claiming(device=None)),
    ("name of another card", "a stale name", "device_unclear", lambda: a_claiming(device=_GPU_80)),
    ("trial on another card", "a stale name", "device_unclear",
     lambda: a_claiming(facts={"device_name": "NVIDIA H200"})),
    ("distributed, world size 1", "seed 3's sample", "device_unclear",
     lambda: a_claiming(facts={"distributed": True})),
    ("p99 of 40", "optimum-benchmark: p99 of 10", "unsupported_percentile",
     lambda: a_claiming({"steps": 40 / STEPS}, raw=False)),
    ("optimizer in no phase", "seed 2's table", "phases_differ",
     phases(36.35, data=5.23, forward=12.45, backward=18.67)),
    ("parts above their total", "seed 2's table, batch 4096", "phases_differ",
     phases(921.01, Task.INFER, data=35.67, forward=367.89, backward=518.45)),
    ("a case that is another's file", "a stale file", "copied_values", copied_case),
    ("same time for every batch", "MambaVision #13", "not_synchronised", same_time_for_every_batch),
    ("best that is not the best", "seed 2's efficiency", "wrong_choice", best_of_all),
    ("precision without effect", "an --amp flag that is not passed on", "setting_without_effect",
     own([(_HALF[0], (0.1234, 0.5678)), (_HALF[1], (0.1234, 0.5678))])),
    ("output of zeros", "M5: dead weights", "constant_output", own([(_SIZES[0], (0.0, 0.0))])),
    ("same output for every batch", "M5: all-zero inputs", "constant_output",
     own([(_SIZES[0], (0.1234, 0.5678)), (_SIZES[1], (0.1234, 0.5678))])),
    ("output is not a number", "M5", "nan_output", own([(_SIZES[0], (math.nan, math.nan))])),
    ("window ends before it begins", "M5", "impossible", reversed_window),
    ("negative rate", "M5", "impossible", times("throughput", -1.0)),
    ("busy neighbour", "optimum-benchmark's spinning parent", "neighbours",
     disturbed(host_busy_s=1.9, process_cpu_s=0.9)),
    ("throttled device", "nvbench #206", "throttled", with_series(device_throttled=[1.0] * 24)),
    ("stolen time", "a shared virtual machine", "steal", disturbed(host_steal_s=1.0)),
    ("another process on the card", "sglang #16219", "other_processes",
     with_series(device_other_processes=[1.0] * 24)),
    ("swapped memory", "a host out of memory", "swapping", disturbed(host_swapped_bytes=5e7)),
    ("one trial", "timm #955, every tool of one process", "few_trials", one_trial_of_three),
)  # fmt: skip


def _mean_of_rates() -> float:
    """By how much the mean of the rates of these steps is above items over time."""
    steps = TIMES[0]
    return math.fsum(1.0 / t for t in steps) / len(steps) * math.fsum(steps) / len(steps)
