"""Runs that have all that pictures show: warm-up, latencies, phases, gauges, peaks, failures; and their Documents."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_machine, a_run, a_trial, peaks_of
from compared_results import a_comparison
from learning import falling, of_losses, rising
from results import a_tuned, an_epoch, metrics_of
from stored import store

from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status, Trial
from torchstone.report.charts.courses import search_chart
from torchstone.report.document import Document, Section
from torchstone.report.documents.run import run_document, run_pictures
from torchstone.storage.query import entry_of, find

HOSTILE = "a|b\x1b[31m<script>alert(1)</script>`x`\n# h\r*_~\u202e\x9b"
A100 = DeviceInfo("cuda", "cuda", "nvidia", 0, "NVIDIA A100-SXM4-80GB", 80 * 2**30)
MI300 = DeviceInfo("rocm", "cuda", "amd", 0, "AMD Instinct MI300X", 192 * 2**30)
XEON = DeviceInfo("cpu", "cpu", "intel", 0, "Intel Xeon Platinum 8480+", 64 * 2**30)
_SPEED = {"cuda": 1.0, "rocm": 0.8, "cpu": 12.0}
_PHASES = {"data": 0.1, "transfer": 0.02, "forward": 0.3, "backward": 0.45, "optimizer": 0.1, "rest": 0.03}
_STEPS = 60
_TWO_GAUGES = ("device_utilization", "process_cpu_s")


def a_charted_trial(case: Case, number: int, order: int, *, steps: int = _STEPS, dice: random.Random) -> Trial:
    """A trial whose steps grow with the batch, behind a warm-up that is slower at first, with all gauges."""
    size, ranks = (int(str(case.configuration.get(axis, 1))) for axis in ("batch_size", "world_size"))
    precision = 0.6 if case.configuration.get("precision") == "bf16" else 1.0
    each_s = _SPEED[case.placement.device] * precision * (0.004 + 2e-4 * size) * (1.0 + 0.01 * dice.gauss(0.0, 1.0))
    each_s *= float(ranks**0.15)
    times = [each_s * (1.0 + 0.05 * dice.expovariate(1.0)) for _ in range(steps)]
    infers = case.workload.task == Task.INFER
    warm = [each_s * (1.0 + 3.0 * 0.6**place) for place in range(8)]
    more = [Measurement("step_time_s", Stage.WARMUP, tuple(warm))]
    more += [
        Measurement("phase_time_s", Stage.STEADY, (share * each_s,), "throughput", name)
        for name, share in (_PHASES if not infers else {"data": 0.1, "transfer": 0.1, "forward": 0.8}).items()
    ]
    if infers:
        more += [
            Measurement("latency_s", Stage.STEADY, tuple(1.2 * time_s for time_s in times), "latency"),
            Measurement("items", Stage.STEADY, (float(size),) * steps, "latency"),
        ]
    held = 2e9 + 3e7 * size * precision
    steady: dict[str, Sequence[float]] = {"peak_rss_bytes": [held if case.placement.device == "cpu" else 1.5e9]}
    if case.placement.device != "cpu":
        steady |= {"peak_reserved_bytes": [held], "peak_allocated_bytes": [0.9 * held]}
    setup = {"flops": [4e9 * size], "traffic_bytes": [5e8 + 4e6 * size], "operators": [300.0]}
    whole_s = sum(times)
    facts = {"task": str(case.workload.task), "device": str(case.placement), "threads_in_effect": 2}
    return a_trial(
        times, items=size * ranks, steady=steady, setup=setup, facts=facts, more=more, case_id=case.case_id,
        trial_id=f"t{order}", number=number, order=order, series=_gauges(case, whole_s, dice),
    )  # fmt: skip


def _gauges(case: Case, whole_s: float, dice: random.Random) -> list[Series]:
    at_s = tuple(0.2 * place for place in range(int((whole_s + 4.0) / 0.2)))
    busy = [1.0 if 2.0 <= moment <= 2.0 + whole_s else 0.1 for moment in at_s]
    read: dict[str, list[float]] = {"rss_bytes": [1e9 + 5e8 * share for share in busy]}
    read["process_cpu_s"] = [0.9 * moment for moment in at_s]
    if case.placement.device != "cpu":
        read |= {
            "device_utilization": [min(1.0, max(0.0, 0.9 * share + 0.03 * dice.gauss(0.0, 1.0))) for share in busy],
            "device_memory_used_bytes": [4e9 * (0.5 + share) for share in busy],
            "device_temperature_c": [40.0 + 10.0 * share + 0.3 * place / len(busy) for place, share in enumerate(busy)],
            "device_power_w": [80.0 + 250.0 * share + 5.0 * dice.gauss(0.0, 1.0) for share in busy],
            "device_clock_hz": [1.41e9 - 5e7 * share for share in busy],
        }
    where = None if case.placement.device == "cpu" else str(case.placement)
    return [Series(metric, "nvml", at_s, tuple(values), where) for metric, values in read.items()]


def a_charted_run(
    cases: Sequence[Case],
    machine: Machine,
    *,
    trials: int = 4,
    failed: Mapping[str, Status] | None = None,
    gauges: Sequence[str] = (),
    **about: Any,
) -> Run:
    """A run of these Cases. `failed`: how those of some ids ended, if not well; `about`: fields of the run.

    `gauges`: those alone were read; (): all of them.
    """
    dice = random.Random(1)
    taken: list[Trial] = []
    for number in range(trials):
        for case in cases:
            trial = a_charted_trial(case, number, len(taken), dice=dice)
            if gauges:
                series = tuple(one for one in trial.series if one.metric in gauges)
                trial = msgspec.structs.replace(trial, series=series)
            status = (failed or {}).get(case.case_id)
            if status is not None:
                trial = msgspec.structs.replace(trial, outcome=Outcome(status, "it fell over"), measurements=())
            taken.append(trial)
    return a_run(taken, cases=cases, machine=machine, **about)


def cases_of(
    sizes: Sequence[int] = (8, 16, 32, 64, 128), devices: Sequence[DeviceInfo] = (A100,), *, task: Task = Task.TRAIN,
    model: str = "net:resnet50", **axes: Sequence[Any],
) -> list[Case]:  # fmt: skip
    """Every combination of these settings on these devices."""
    points: list[dict[str, Any]] = [{}]
    for axis, values in axes.items():
        points = [{**point, axis: value} for point in points for value in values]
    return [
        a_case({"batch_size": size, **point}, task=task, model=model, placement=Placement(device.kind, device.index))
        for device in devices for point in points for size in sizes
    ]  # fmt: skip


def machine_of(*devices: DeviceInfo) -> Machine:
    """A machine with these devices, whose peaks were measured."""
    peaks = tuple(
        peaks_of(
            kind=device.kind, device_name=device.name, matmul_fp32=2e13 if device.kind != "cpu" else 2e12,
            matmul_bf16=3e14, memory_copy=1.5e12, memory_triad=1.4e12, cache_bytes=50 << 20,
        )
        for device in devices
    )  # fmt: skip
    return a_machine(devices=devices, peaks=peaks)


def summary_of(run: Run) -> RunSummary:
    """The summary of a run that was never stored."""
    return summarize(entry_of(run, Path("outputs/records/20261121-100000-abcd.jsonl")))


def a_page(run: Run, *, every: bool = False) -> Document:
    """All that a report of a run has. It is stored, since losses are read from the record."""
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), [run])
        summary = summarize(find(Path(folder), run.head.run_id))
        return run_document(summary, every=every, pictures=run_pictures(summary, run))


def a_training_sweep() -> Run:
    """Two precisions over five batch sizes; the largest of one ran out of memory, one in the middle of the other."""
    cases = cases_of(precision=("fp32", "bf16"))
    failed = {cases[4].case_id: Status.OUT_OF_MEMORY, cases[7].case_id: Status.TIMED_OUT}
    return a_charted_run(cases, machine_of(A100), failed=failed)


def three_devices() -> Run:
    """The same network on three devices, two precisions each, two tasks; the CPU ran fewer sizes."""
    cases = cases_of((8, 32, 128), (A100, MI300), precision=("fp32", "bf16"), task=Task.INFER)
    cases += cases_of((8, 32), (XEON,), precision=("fp32",), task=Task.INFER)
    cases += cases_of((8, 32, 128), (A100, MI300), precision=("fp32", "bf16"))
    failed = {cases[5].case_id: Status.OUT_OF_MEMORY, cases[11].case_id: Status.OUT_OF_MEMORY}
    return a_charted_run(cases, machine_of(A100, MI300, XEON), failed=failed)


def three_devices_in_short() -> Run:
    """Three devices that infer, one of which trains, too, at two precisions: every picture, with few panels."""
    cases = cases_of((8, 32), (A100, MI300, XEON), task=Task.INFER) + cases_of(
        (8, 32, 128), (A100,), precision=("fp32", "bf16")
    )
    failed = {cases[8].case_id: Status.OUT_OF_MEMORY}
    return a_charted_run(cases, machine_of(A100, MI300, XEON), failed=failed, gauges=_TWO_GAUGES)


def many_settings() -> Run:
    """Twelve settings over four batch sizes: more curves than there are colours."""
    return a_charted_run(
        cases_of((8, 16, 32, 64), precision=("fp32", "bf16"), num_workers=(0, 2, 4), pin_memory=(False, True)),
        machine_of(A100), trials=2,
    )  # fmt: skip


def hostile() -> Run:
    """Names of strangers wherever a picture has one."""
    named = msgspec.structs.replace(A100, name=HOSTILE * 3)
    cases = [
        a_case({"batch_size": size, HOSTILE: value}, model=f"py:{HOSTILE}", item=HOSTILE, placement=Placement("cuda"))
        for value in (HOSTILE, f"{HOSTILE}2") for size in (8, 32)
    ]  # fmt: skip
    return a_charted_run(cases, machine_of(named), gauges=_TWO_GAUGES)


def one_trial() -> Run:
    """A trial a case, of inference: no intervals over trials."""
    return a_charted_run(cases_of((1, 8), task=Task.INFER), machine_of(A100), trials=1, gauges=_TWO_GAUGES)


def over_ranks() -> Run:
    """A training on one to eight ranks with two strategies; one with the same batch in all; one ran out of memory."""
    points = [(1, "none", 32), *((ranks, how, 32) for how in ("ddp", "fsdp2") for ranks in (2, 4, 8)), (4, "ddp", 8)]
    cases = [
        a_case({"batch_size": batch, "world_size": ranks, "strategy": how, "backend": "auto" if ranks == 1 else "nccl"},
               task=Task.TRAIN, model="net:resnet50", placement=Placement("cuda", count=ranks))
        for ranks, how, batch in points
    ]  # fmt: skip
    devices = [msgspec.structs.replace(A100, index=index) for index in range(8)]
    return a_charted_run(
        cases, machine_of(*devices), failed={cases[5].case_id: Status.OUT_OF_MEMORY}, gauges=_TWO_GAUGES
    )


def trained_at_three_rates() -> Run:
    """The same training at three learning rates, one of which diverges."""
    curves = [(1e-4, falling(slope=-0.002)), (1e-3, falling(slope=-0.02)), (1.0, rising())]
    return of_losses([({"learning_rate": rate}, curve) for rate, curve in curves])


def a_search() -> Document:
    """A tune with the picture of its search."""
    told = a_tuned()
    chart = search_chart(told)
    return run_document(told, pictures=[Section("Pictures", (chart,))] if chart is not None else [])


def three_machines() -> list[ComparedInput]:
    """The same inference on three machines, of which one ran out of memory and one did not try a batch size."""
    sides = []
    for letter, device, sizes in (("A", A100, (8, 32, 128)), ("B", MI300, (8, 32, 128)), ("C", XEON, (8, 128))):
        cases = cases_of(sizes, (device,), task=Task.INFER)
        failed = {cases[-1].case_id: Status.OUT_OF_MEMORY} if letter == "B" else None
        run = a_charted_run(cases, machine_of(device), failed=failed)
        sides.append(ComparedInput(letter, device.name, letter, (run,)))
    return sides


def two_trainings() -> list[ComparedInput]:
    """Trainings to their end on two cards."""
    dice, sides = random.Random(2), []
    for letter, device, by in (("A", A100, 1.0), ("B", MI300, 1.5)):
        case = cases_of((32,), (device,))[0]
        run = a_charted_run([case], machine_of(device))
        epochs = [
            an_epoch(
                n, train_loss=by * 2.0 / n, val_loss=by * 2.1 / n,
                train_accuracy=1.0 - 0.5 / n, val_accuracy=1.0 - 0.6 / n,
            )
            for n in range(1, 9)
        ]  # fmt: skip
        gauges = tuple(_gauges(case, 20.0 * by, dice))
        metrics = metrics_of(epochs, run_id=run.head.run_id, telemetry=gauges)
        sides.append(ComparedInput(letter, device.name, letter, (run,), {run.head.run_id: metrics}))
    return sides


DOCUMENTS: tuple[tuple[str, Callable[[], Document]], ...] = (
    ("pictures: a training sweep", cache(lambda: a_page(a_training_sweep(), every=True))),
    ("pictures: three devices", cache(lambda: a_page(three_devices_in_short()))),
    ("pictures: many settings", cache(lambda: a_page(many_settings()))),
    ("pictures: one trial", cache(lambda: a_page(one_trial()))),
    ("pictures: hostile", cache(lambda: a_page(hostile()))),
    ("pictures: losses", cache(lambda: a_page(trained_at_three_rates()))),
    ("pictures: a search", cache(a_search)),
    ("pictures: ranks", cache(lambda: a_page(over_ranks()))),
    ("pictures: three machines", cache(lambda: a_comparison(*three_machines(), pictures=True))),
    ("pictures: two trainings", cache(lambda: a_comparison(*two_trainings(), pictures=True))),
)
