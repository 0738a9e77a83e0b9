"""Builders of what commands return, a tune, a diagnosis, a training, …, and the Documents of them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_machine, a_run, a_sweep, a_trial, peaks_of
from evidences import SETTINGS, a_line, a_look, an_evidence

from torchstone.analysis.advice.causes import causes_of
from torchstone.analysis.advice.rules import Evidence
from torchstone.analysis.memory_fit import FitRow
from torchstone.analysis.memory_fit import MemoryAnswer as Prediction
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.cli.list_command import plugins_document
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import Choice, TuneResult
from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import (
    SAME_LOSS,
    Attached,
    Diagnosis,
    ProcessRole,
    SampledLine,
    SampledProcess,
    TriedRemedy,
    WhatIf,
)
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import DeviceInfo, Host, Rate
from torchstone.core.schema.metric import PeakMemory
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Epoch, EpochMetrics, Training, TrainingMetrics
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.report.charts.courses import training_charts
from torchstone.report.document import Document, Section
from torchstone.report.documents.diagnosis import diagnosis_document
from torchstone.report.documents.machine import (
    MeasuredPeaks,
    machine_all_document,
    machine_check_document,
    machine_document,
    peaks_document,
)
from torchstone.report.documents.memory import memory_document
from torchstone.report.documents.run import TRAINING, run_document
from torchstone.report.documents.runs import (
    exported_document,
    imported_document,
    pushed_document,
    runs_document,
    store_document,
)
from torchstone.report.documents.training import evaluation_document
from torchstone.storage.index import Problem
from torchstone.storage.place import team_at
from torchstone.storage.query import RunRow, entry_of
from torchstone.storage.team.tables import TeamStatus
from torchstone.workflows.diagnose.measured_diagnosis import initial_diagnosis
from torchstone.workflows.machine_check import conditions as conditions_of
from torchstone.workflows.machine_check.conditions import MachineCondition, machine_verdict
from torchstone.workflows.machine_check.examination import Examination, Round, SideBySide, judged_devices
from torchstone.workflows.train.evaluation import ClassQuality, GaugeSummary, TestMetrics, TestResults

GIB = 2**30
HOSTILE = "a|b\x1b[31m<script>`x`\n# c"

# ── a tune ──────────────────────────────────────────────────────────────────────────────────────────────────


def a_tuned(**changes: Any) -> RunSummary:
    """The summary of `a_tuned_run`."""
    return summarize(entry_of(a_tuned_run(**changes), Path("t.jsonl")))


def a_tuned_run(**changes: Any) -> Run:
    """A tune over batch sizes 16 and 32 on the CPU: two trials of each in its final round, and a probe of 64.

    `changes`: fields of its TuneResult; `present=None` and `gain=None` where nobody said what the present settings are.
    """
    cases = [a_case({"batch_size": size}) for size in (16, 32, 64)]
    trials = [
        a_trial(case_id=case.case_id, items=size, trial_id=f"t{size}-{n}", number=n, purpose=purpose)
        for case, size, purpose in zip(cases, (16, 32, 64), (*[Purpose.REPLICATE] * 2, Purpose.PROBE), strict=True)
        for n in range(1 if purpose == Purpose.PROBE else 2)
    ]
    present, best, probed = (
        Choice(case.case_id, case.configuration, taken, rate, 1e9, None, throughput_low=0.9 * rate,
               throughput_high=1.1 * rate)
        for case, taken, rate in zip(cases, (2, 2, 0), (1500.0, 3000.0, 3100.0), strict=True)
    )  # fmt: skip
    fields: dict[str, Any] = {
        "recommended": best, "highest_throughput": probed, "best_efficiency": best, "pareto": (present, best),
        "present": present, "gain": Estimate(2.0, 1.9, 2.1, 0.95, "ratio", "rounds", 2, 20),
        "epoch_time_s": Estimate(0.6, 0.58, 0.62, 0.95, "s", "rounds", 2, 20),
        "settings": {"batch_size": 32, "num_workers": 2, "pin_memory": False},
        "why": (Statement("peak_memory", {"memory_bytes": 1e9, "share": 0.5}), Statement("no_probe_ran_out")),
        "searched_s": 12.0, "everything_s": 240.0, "points": 24, "probes": 7, "tried": 24,
    }  # fmt: skip
    return a_run(trials, cases=cases, answer=TuneResult(**{**fields, **changes}))


# ── a diagnosis ─────────────────────────────────────────────────────────────────────────────────────────────

FED = {"data": 0.9, "transfer": 0.0, "forward": 0.03, "backward": 0.06, "optimizer": 0.005, "rest": 0.005}
GAIN = Estimate(3.82, 3.7, 3.94, 0.99, "ratio", "live", 6, 600)
WORKERS = WhatIf({"num_workers": 4})
SWEEP = [({**SETTINGS, "feed": "loader", "batch_size": size}, 0.01 + 1e-4 * size) for size in (8, 32, 128, 512)]


def a_diagnosis(evidence: Evidence | None = None, run: Run | None = None, **changes: Any) -> Diagnosis:
    """A diagnosis of a slow loader, whose workers were measured to help. `changes`: fields of it."""
    return with_its_run(evidence, run, **changes)[0]


def with_its_run(
    evidence: Evidence | None = None, run: Run | None = None, **changes: Any
) -> tuple[Diagnosis, RunSummary]:
    """The same, with the run that was diagnosed."""
    evidence = evidence or an_evidence(
        {"feed": "loader"}, FED, device_rate=6000.0, loader_rate=700.0, loader_alone_rate=700.0,
        loader_look=a_look(main_busy=0.03, lines=(a_line(0.9, code="time.sleep(0.002)", phase="data"),)),
    )  # fmt: skip
    summary = summarize(entry_of(run or a_sweep(SWEEP, phases=FED), Path()))
    recorded = next((c for c in summary.cases if c.configuration["batch_size"] == 32), None)
    case = evidence.case
    if recorded is not None:
        case = Case(recorded.workload, recorded.configuration, recorded.placement)
    found = initial_diagnosis("20261122-000000-abc", "mine", case, evidence, causes_of(evidence), summary, recorded)
    tried = (
        TriedRemedy("loader_waits", WhatIf({"feed": "resident"}, ceiling=True), Judgement.BETTER,
              msgspec.structs.replace(GAIN, value=9.0), 1e9, 1.0, Statement("loss_of_other_batches")),
        TriedRemedy("loader_waits", WORKERS, Judgement.BETTER, GAIN, 1.2e9, 1.12, Statement(SAME_LOSS)),
        TriedRemedy("computing", WhatIf({"compile": "default"}),
              message=Statement("compiling_takes_long", {"budget_s": 120.0})),
    )  # fmt: skip
    return msgspec.structs.replace(found, **{"tried": tried, "applied": tried[1], **changes}), summary


# ── a machine ───────────────────────────────────────────────────────────────────────────────────────────────

H200 = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", memory_bytes=141 << 30, uuid="GPU-1")
ON_H200 = peaks_of(
    kind="cuda", device_name="NVIDIA H200", uuid="GPU-1", matmul_fp32=5e13, matmul_bf16=7.945e14, memory_copy=4.2e12,
    memory_triad=4.3e12, busy_cores=0.1,
)  # fmt: skip
QUIET = conditions_of.cores_kept_busy(0.0, 8, "")
UNTOLD = conditions_of.stolen_time(None)
NOISY = conditions_of.disk_room(512 << 20, "outputs")


def an_examination(*conditions: MachineCondition, settled: float | None = 0.008) -> Examination:
    """A machine with these conditions; none: a quiet one."""
    seen = list(conditions or (QUIET, UNTOLD))
    return Examination(machine_verdict(seen), tuple(seen), settled, None)


def a_memory_row(
    batch: int = 4,
    gib: float = 3.0,
    largest: int | None = 200,
    card: str = "NVIDIA H100 SXM 80 GB",
    memory: int = 80,
    **changes: Any,
) -> FitRow:
    """A batch of GPT-2 on a card: its peak of `gib` is weights and activations. `changes`: fields of Row."""
    peak = PeakMemory(batch, int(gib * GIB), {"weights": GIB, "activations": int((gib - 1) * GIB)}, "backward", 4 * GIB)
    most = None if largest is None else PeakMemory(largest, 71 * GIB, {}, "backward")
    configuration = {"batch_size": batch, "precision": "fp32", **changes.pop("configuration", {})}
    return FitRow("train", "hf:gpt2", card, memory * GIB, configuration, peak, most, **changes)


# ── a training ──────────────────────────────────────────────────────────────────────────────────────────────


def an_epoch(number: int = 1, **changes: Any) -> EpochMetrics:
    """An epoch of ten steps of 16 images in 1.6 s; its loss is 1 over its number."""
    fields: dict[str, Any] = {
        "epoch": number, "learning_rate": 1e-3, "train_loss": 1.0 / number, "train_accuracy": 0.8,
        "val_loss": 1.1 / number, "val_accuracy": 0.75, "steps": 10, "items": 160, "train_time_s": 1.6,
        "data_wait_s": 0.1, "validation_time_s": 0.2, "checkpoint_time_s": 0.05, "throughput": 100.0,
        "batch_times_s": (0.16,) * 10, "checkpoint": f"checkpoint_epoch_{number}.safetensors", "best": True,
        "began_s": 2.0 * number, "ended_s": 2.0 * number + 1.9,
    }  # fmt: skip
    return EpochMetrics(**{**fields, **changes})


def metrics_of(epochs: Sequence[EpochMetrics], **changes: Any) -> TrainingMetrics:
    """The metrics of these epochs, the last of them the best. `changes`: fields of TrainingMetrics."""
    fields: dict[str, Any] = {
        "run_id": "20261122-000000-abc", "model": "net:cnn", "data": "digits", "device": "cpu:0", "item": "image",
        "epochs": tuple(epochs), "avg_epoch_time_s": 1.6, "total_runtime_minutes": 0.1, "throughput": 100.0,
        "final_train_accuracy": 0.8, "final_val_accuracy": 0.75, "best_epoch": len(epochs), "outcome": "ok",
    }  # fmt: skip
    return TrainingMetrics(**{**fields, **changes})


def a_training(
    metrics: TrainingMetrics | None, epoch: Epoch | None = None, *, fixed: Mapping[str, Any] | None = None,
    message: str | None = None,
) -> RunSummary:  # fmt: skip
    """A training of a small network on the CPU. `message`: why it failed."""
    case = a_case(fixed=fixed or {"weights": "random"}, data="digits")
    ended: dict[str, Any] = {"outcome": Outcome(Status.CRASHED, message), "measurements": ()} if message else {}
    answer = Training("trained", metrics, epoch)
    run = a_run([a_trial(case_id=case.case_id, **ended)], cases=[case], answer=answer)
    return summarize(entry_of(run, Path("t.jsonl")))


def _trained(metrics: TrainingMetrics, epoch: Epoch | None = None) -> Document:
    pictures = [Section(TRAINING, tuple(training_charts(metrics, "cpu")))]
    return run_document(a_training(metrics, epoch), pictures=pictures)


def a_quality(
    matrix: Sequence[Sequence[int]] = ((4, 0), (1, 3)), names: Sequence[str] = ("blue", "red")
) -> TestMetrics:
    """What a confusion matrix says, with the same precision, recall and F1 for each class."""
    each = tuple(ClassQuality(name, 0.8, None, 0.85, sum(row)) for name, row in zip(names, matrix, strict=True))
    count = sum(map(sum, matrix))
    accuracy = sum(row[n] for n, row in enumerate(matrix)) / count
    return TestMetrics(accuracy, 0.9, 0.875, 0.873, tuple(map(tuple, matrix)), tuple(names), each, count)


def an_evaluation(quality: TestMetrics | None, **changes: Any) -> TestResults:
    """A checkpoint of epoch 3, judged on eight images."""
    fields: dict[str, Any] = {
        "training": "trained", "run_id": "20261122-000000-abc", "epoch": 3, "data": "images:photos", "split": "test",
        "loss": 0.4321,
        "items": 8, "throughput": 512.0, "time_per_batch_s": 0.01, "quality": quality,
        "gauges": {"device_power_w": GaugeSummary(250.0, 200.0, 300.0, 12)},
        "files": {"predictions": "trained/test_results/predictions.csv", "metrics": "trained/test_results/m.json"},
    }  # fmt: skip
    return TestResults(**{**fields, **changes})


# ── a Document of each, for what every renderer must be able to draw ────────────────────────────────────────


def all_devices(*speeds: tuple[str, float]) -> SideBySide:
    """Return what two rounds show of devices of these names and speeds, which all at once lose a tenth."""
    alone = [tuple({"products": by * speed * 1e12} for _, speed in speeds) for by in (1.0, 1.01)]
    rounds = [Round(one, tuple({"products": 0.9 * rates["products"]} for rates in one)) for one in alone]
    return judged_devices("devices", [(name, "NVIDIA H200") for name, _ in speeds], rounds)


_MACHINE = a_machine(devices=(H200,), peaks=(peaks_of(),), settings={"OMP_NUM_THREADS": "4"})
_MANY = a_machine(devices=tuple(msgspec.structs.replace(H200, index=number) for number in range(40)))
_STRANGE = a_machine(host=Host(HOSTILE, HOSTILE, None, None, None, None), software={HOSTILE: HOSTILE})
_BROKEN = Rate("disk_read", None, "bytes/s", HOSTILE)
_IDENTITY = tuple(tuple(int(row == column) for column in range(40)) for row in range(40))
_RUN = RunRow("20261121-100000-abcd", "a-run", "2026-11-21T10:00:00Z", "done", "host", "cpu", 1, 3, 3, "a.jsonl")
_RUNS = [msgspec.structs.replace(_RUN, name=f"{number}-{HOSTILE * 4}") for number in range(40)]
_ROWS = tuple(a_memory_row(card=f"card {number}", gib=2.0 + number, largest=number or None) for number in range(40))
_LACKING = FitRow("train", HOSTILE, HOSTILE, GIB, {"batch_size": 1}, why_not=Outcome(Status.UNSUPPORTED, HOSTILE))
_STEP = Epoch(4.2, 0.1, 11, 176, 0.025, None)

TEAM = team_at("postgresql://ana@db.example/bench", typed=True)
STORE = TeamStatus(
    TEAM.shown, "PostgreSQL 15.18", "1.5", 1234, 61700, 10, "2026-11-23T18:00:00Z", 5 * 2**30, "ana", may_push=True,
    superuser=False, has_roles=True, encrypted=True,
)  # fmt: skip


def an_attached(code: str = "time.sleep(0.03)") -> Attached:
    """How a program was looked at from outside, with a process that loads."""
    lines = SampledLine("train.py", 17, code, "rest", 0.31, 0.24, 0.38), SampledLine("train.py", 9, code, "data", 0.02)
    processes = (
        SampledProcess(4242, ProcessRole.TRAINING, code, 0.98, rank=0),
        SampledProcess(4243, ProcessRole.LOADER, "bin/python", None),
    )
    return Attached(
        4242, 30.0, 300, 10, 0.4, lines, lines[:1], processes, others_cores=0.2, utilization=0.4, ended=True
    )


DOCUMENTS: tuple[tuple[str, Callable[[], Document]], ...] = (
    ("tune", lambda: run_document(a_tuned())),
    ("tune, no present", lambda: run_document(a_tuned(present=None, gain=None), every=True)),
    ("tune, hostile", lambda: run_document(a_tuned(why=(Statement(HOSTILE),), settings={HOSTILE: HOSTILE}))),
    ("diagnosis", lambda: diagnosis_document(a_diagnosis(command="torchstone run x"), Path("a.md"))),
    ("diagnosis, no cause", lambda: diagnosis_document(a_diagnosis(causes=(), tried=(), applied=None))),
    (
        "diagnosis, hostile",
        lambda: diagnosis_document(a_diagnosis(about=HOSTILE, limits=(Statement(HOSTILE),), command=HOSTILE)),
    ),
    ("diagnosis, from outside", lambda: diagnosis_document(a_diagnosis(attached=an_attached()))),
    ("diagnosis, from outside, hostile", lambda: diagnosis_document(a_diagnosis(attached=an_attached(HOSTILE)))),
    ("machine", lambda: machine_document(_MACHINE, {"mps": "this is Linux"})),
    ("machine, 40 devices", lambda: machine_document(_MANY, {})),
    ("machine, hostile", lambda: machine_document(_STRANGE, {HOSTILE: HOSTILE})),
    ("machine check", lambda: machine_check_document(an_examination())),
    ("machine check, noisy", lambda: machine_check_document(an_examination(QUIET, NOISY, UNTOLD, settled=None))),
    ("machine check, all devices", lambda: machine_all_document(all_devices(("cuda:0", 1.0), ("cuda:1", 0.8)))),
    ("machine check, one device, hostile", lambda: machine_all_document(all_devices((HOSTILE, 1.0)))),
    ("peaks", lambda: peaks_document(MeasuredPeaks(ON_H200, H200, new=True))),
    ("peaks, none", lambda: peaks_document(MeasuredPeaks(peaks_of(rates=(_BROKEN,), busy_cores=2.0), None))),
    ("memory", lambda: memory_document(Prediction((a_memory_row(),), (), {}))),
    ("memory, 40 cards", lambda: memory_document(Prediction(_ROWS, ("batch_size",), {}), "first of all")),
    ("memory, unknown", lambda: memory_document(Prediction((_LACKING,), (), {}))),
    ("training", lambda: _trained(metrics_of([an_epoch(1), an_epoch(2)]), _STEP)),
    ("training, 40 epochs", lambda: _trained(metrics_of(list(map(an_epoch, range(1, 41)))))),
    ("training, failed", lambda: run_document(a_training(None, message=HOSTILE))),
    ("evaluation", lambda: evaluation_document(an_evaluation(a_quality()))),
    ("evaluation, loss alone", lambda: evaluation_document(an_evaluation(None, gauges={}))),
    (
        "evaluation, 40 classes",
        lambda: evaluation_document(an_evaluation(a_quality(_IDENTITY, [HOSTILE] * 40), items=40)),
    ),
    ("runs", lambda: runs_document([_RUN], (), Path("outputs"))),
    ("runs, 40 and a broken one", lambda: runs_document(_RUNS, (Problem(HOSTILE, HOSTILE),), Path("outputs"))),
    ("runs, none", lambda: runs_document((), (), Path("outputs"))),
    ("import", lambda: imported_document([("20261121-100000-abcd", True), ("20261122-100000-beef", False)])),
    ("import, nothing", lambda: imported_document([])),
    ("push", lambda: pushed_document([("20261121-100000-abcd", True), ("20261122-100000-beef", False)], [], TEAM)),
    ("push, one refused", lambda: pushed_document([], ["records/a.jsonl: it fell over"], TEAM)),
    ("store", lambda: store_document(STORE)),
    (
        "store, made by a superuser",
        lambda: store_document(
            msgspec.structs.replace(STORE, runs=1, hosts=1, newest_utc=None, superuser=True, has_roles=False), "created"
        ),
    ),
    ("store, there already", lambda: store_document(STORE, "there")),
    ("store, up to date", lambda: store_document(STORE, "current")),
    ("store, upgraded", lambda: store_document(STORE, "upgraded")),
    ("store, roles made", lambda: store_document(STORE, "roles")),
    ("export", lambda: exported_document(Path("outputs/data/cases.csv"))),
    ("list", lambda: plugins_document({"models": [("builtin:cnn", "a small network"), (HOSTILE, "")], "checks": []})),
)
