"""Clean runs, simulated: what a sound instrument records of sound work on a machine that is alone, noise included.

Noise within a process is log-normal and resembles its neighbours (autoregression of first order); processes of the same
code differ by more than their steps (research on a shared machine: 2 to 15 %).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from build import a_machine, a_run

from torchstone.core.datasheet import dense_peak_flops
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status, Trial

GIB = 2**30
CARDS = (
    DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", 140 * GIB),
    DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA A100-SXM4-80GB", 79 * GIB),
    DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA GeForce RTX 4090", 24 * GIB),
    DeviceInfo("rocm", "cuda", "AMD", 0, "AMD Instinct MI300X", 192 * GIB),
    DeviceInfo("mps", "mps", "Apple", 0, "Apple M2 Max", 64 * GIB),
    DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"),
    DeviceInfo("cpu", "cpu", "AMD", 0, "another processor"),
)
MODELS = {"hf:bert": "sequence", "timm:vit": "image", "builtin:cnn": "image", "hf:gpt2": "sequence"}


class Noise:
    """Step times of one process: `level` times a noise of `sd` whose neighbours correlate by `rho`."""

    def __init__(self, rng: random.Random, level_s: float, sd: float, rho: float) -> None:
        self._rng, self._level_s, self._sd, self._rho = rng, level_s, sd, rho
        self._at = rng.gauss(0.0, sd)

    def steps(self, count: int) -> list[float]:
        made = []
        for _ in range(count):
            self._at = self._rho * self._at + math.sqrt(1.0 - self._rho**2) * self._rng.gauss(0.0, self._sd)
            slow = 1.0 + self._rng.expovariate(2.0) if self._rng.random() < 0.005 else 1.0  # the kernel's own work
            made.append(round(self._level_s * math.exp(self._at) * slow, 9))
        return made


def a_clean_run(seed: int) -> Run:
    """One run of one to four cases over batch sizes (and a precision), three to five trials each."""
    rng = random.Random(seed)
    device = rng.choice(CARDS)
    task = rng.choice((Task.INFER, Task.TRAIN))
    model = rng.choice(list(MODELS))
    sizes = sorted(rng.sample((1, 4, 8, 16, 32, 64, 128), rng.randint(1, 3)))
    precision = rng.choice(("fp32", "bf16"))
    base: dict[str, Scalar] = {"precision": precision, "num_workers": rng.choice((0, 2)), "learning_rate": 1e-3}
    loader = rng.random() < 0.4
    workload = Workload(task, model, "synthetic", MODELS[model])
    cases = [Case(workload, {"batch_size": size, **base}, Placement(device.kind)) for size in sizes]
    if rng.random() < 0.3 and precision == "fp32":
        cases.append(Case(workload, {**cases[-1].configuration, "precision": "bf16"}, Placement(device.kind)))
    within, rho, between = rng.uniform(0.01, 0.13), rng.uniform(0.0, 0.6), rng.uniform(0.01, 0.15)
    least_s = 10 ** rng.uniform(-3.3, -1.3)  # what a step of one item takes: launches, mostly
    trials: list[Trial] = []
    for number in range(rng.choice((3, 3, 5))):
        for case in cases:
            level_s = least_s * (1.0 + 0.05 * float(case.configuration["batch_size"] or 1))
            level_s *= math.exp(rng.gauss(0.0, between))
            noise = Noise(rng, level_s, within, rho)
            trials.append(_trial(rng, case, device, noise, level_s, len(trials), number, loader))
    machine = a_machine(devices=(device,))
    return a_run(trials, cases=cases, machine=machine, procedure=Procedure(trials=3))


def _trial(
    rng: random.Random, case: Case, device: DeviceInfo, noise: Noise, level_s: float, order: int, number: int,
    loader: bool,
) -> Trial:  # fmt: skip
    size = case.configuration["batch_size"]
    assert isinstance(size, int)
    measured = [Measurement("first_step_time_s", Stage.SETUP, (level_s * rng.uniform(3.0, 30.0),))]
    warm = noise.steps(rng.randint(10, 30))
    measured.append(Measurement("step_time_s", Stage.WARMUP, tuple(w * 1.15 for w in warm)))  # each is waited for
    infer, at_s = case.workload.task == Task.INFER, 3.0
    spans = []
    for window in ("latency", "throughput") if infer else ("throughput",):
        steps = noise.steps(min(160, max(30, int(1.0 / level_s))))
        waits = [round(rng.expovariate(1.0) * (0.05 if loader else 1e-6) * level_s, 9) for _ in steps]
        laps = [s + w for s, w in zip(steps, waits, strict=True)]
        total_s = sum(laps) * 1.001 + len(steps) * 2e-6
        spans.append((at_s, at_s + total_s))
        values: Mapping[str, Sequence[float]] = {
            "latency_s" if window == "latency" else "step_time_s": steps if window == "latency" else laps,
            "data_wait_s": waits, "items": [size] * len(steps), "window_time_s": [total_s],
            "window_span_s": spans[-1],
        }  # fmt: skip
        measured += [Measurement(name, Stage.STEADY, tuple(v), window) for name, v in values.items()]
        at_s += total_s + 0.1
    measured += _results(rng, case, noise, device, level_s)
    return Trial(
        f"t{order}", case.case_id, number, order, "2026-11-21T10:00:00Z", at_s + 1.0, Outcome(Status.OK),
        Facts(str(case.workload.task), device.kind, logical_cores=8, warmup_settled=True, warmup_steps=len(warm),
              clock_resolution_s=5e-8),
        tuple(measured), tuple(_series(rng, device, spans, at_s)),
    )  # fmt: skip


def _results(rng: random.Random, case: Case, noise: Noise, device: DeviceInfo, level_s: float) -> list[Measurement]:
    """What the engine and the counters tell: losses, fingerprint, phases, memory, operations."""
    train = case.workload.task == Task.TRAIN
    size = float(case.configuration["batch_size"] or 1)
    half = 1e-3 if case.configuration["precision"] == "bf16" else 0.0
    drawn = random.Random(str(case.workload.model))  # equal seeds compute equal things in every trial
    losses = [2.3 * math.exp(-0.01 * i) * (1.0 + 0.02 * drawn.gauss(0.0, 1.0)) + half for i in range(40)]
    answer = [0.01 + 0.003 / math.sqrt(size) + half, 0.8 - 0.01 / size + half]
    steps = noise.steps(20)
    names = ("data", "transfer", "forward", "backward", "optimizer", "rest") if train else ("data", "forward", "rest")
    shares = [rng.uniform(0.0, 0.1) if name == "rest" else rng.uniform(0.2, 1.0) for name in names]
    parts = [
        Measurement("phase_time_s", Stage.STEADY, tuple(s * share / sum(shares) for s in steps), "anatomy", name)
        for name, share in zip(names, shares, strict=True)
    ]
    peak = dense_peak_flops(device.name, str(case.configuration["precision"]), device.memory_bytes)
    held = min(0.8 * (device.memory_bytes or 16 * GIB), 2e8 + 2e7 * size)
    single: dict[str, Sequence[float]] = {
        "anatomy_step_time_s": steps, "minor_faults": [rng.randint(0, 900)], "major_faults": [rng.randint(0, 3)],
        "peak_rss_bytes": [3e8 + 1e6 * size], "fingerprint": losses[:3] if train else answer,
    }  # fmt: skip
    if device.kind != "cpu":
        single |= {"peak_reserved_bytes": [held], "peak_allocated_bytes": [0.9 * held], "allocator_retries": [0.0]}
    if train:
        single["loss"] = losses
    made = [Measurement(n, Stage.STEADY, tuple(v), "anatomy" if "anatomy" in n else None) for n, v in single.items()]
    if peak is not None:
        work = peak.value * level_s * drawn.uniform(0.02, 0.5)
        made.append(Measurement("flops", Stage.SETUP, (work,)))
    return [*made, *parts]


def _series(rng: random.Random, device: DeviceInfo, spans: Sequence[tuple[float, float]], end_s: float) -> list[Series]:
    at_s = tuple(0.25 * i for i in range(int(end_s / 0.25) + 2))
    busy = rng.uniform(0.9, 1.9)
    counters: dict[str, tuple[float, ...]] = {
        "host_busy_s": tuple((busy + 0.03) * t for t in at_s), "process_cpu_s": tuple(busy * t for t in at_s),
        "host_steal_s": tuple(0.002 * t for t in at_s), "host_swapped_bytes": tuple(5e6 for _ in at_s),
        "rss_bytes": tuple(3e8 + rng.uniform(0.0, 1e6) for _ in at_s),
    }  # fmt: skip
    made = [Series(metric, "test", at_s, values) for metric, values in counters.items()]
    if device.kind not in ("cuda", "rocm"):
        return made
    drawn = [rng.uniform(220.0, 330.0) for _ in at_s]
    energy, total = [], 1e6
    for watts in drawn:
        energy.append(total)
        total += 0.25 * watts * rng.uniform(0.97, 1.03)
    gauges: dict[str, Any] = {
        "device_power_w": drawn, "device_power_limit_w": [300.0] * len(at_s),  # single readings may lie above it
        "device_energy_j": energy, "device_temperature_c": [rng.uniform(45, 70) for _ in at_s],
        "device_clock_hz": [1.7e9 + rng.uniform(-1e8, 1e8) for _ in at_s], "device_throttled": [0.0] * len(at_s),
        "device_utilization": [rng.uniform(0.5, 1.0) for _ in at_s], "device_other_processes": [0.0] * len(at_s),
        "device_memory_used_bytes": [2e9 + rng.uniform(0, 1e6) for _ in at_s],
    }  # fmt: skip
    return [*made, *(Series(m, "nvml", at_s, tuple(v), device.name) for m, v in gauges.items())]
