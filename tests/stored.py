"""Builders of stores: many runs of many machines, written as records."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import DeviceInfo, Host, Machine
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.storage.record_writer import record_lines

CARD = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", 140 * 2**30, "9.0", "570.1", "13.0")
PROCESSOR = DeviceInfo("cpu", "cpu", "Intel", 0, "Intel Xeon", 24 * 2**30)


def machine(kind: str = "cpu", host: str = "desk", torch: str = "2.12.0", **software: str) -> Machine:
    """A machine with a card or without."""
    found = a_machine(devices=(PROCESSOR, CARD) if kind == "cuda" else (PROCESSOR,))
    named = msgspec.structs.replace(found.host, hostname=host)
    assert isinstance(named, Host)
    return msgspec.structs.replace(found, host=named, software={"torch": torch, **software})


def case(
    kind: str = "cpu", *, task: str = "train", model: str = "hf:bert", family: str = "embedding", **axes: Any
) -> Case:
    """A Case of a model of a family, with the axes that a choice is about."""
    training = {"optimizer": "adamw", "learning_rate": 1e-3} if task == "train" else {}
    configuration = {"batch_size": 8, "precision": "fp32", "feed": "resident", **training, **axes}
    return a_case(configuration, task=Task(task), model=model, family=family, placement=Placement(kind))


def a_stored_run(
    number: int,
    cases: Sequence[tuple[Case, float]],
    on: Machine,
    *,
    trials: int = 3,
    noise: float = 0.01,
    findings: Sequence[Finding] = (),
    memory: Mapping[str, float] | None = None,
    failed: Sequence[str] = (),
    **head: Any,
) -> Run:
    """A run of these Cases and their throughputs; `memory`: peak bytes by case_id; `failed`: Cases that ran out."""
    dice = random.Random(number)
    taken: list[Trial] = []
    for n in range(trials):
        for one, rate in cases:
            size = int(one.configuration["batch_size"] or 1)
            each_s = size / rate * (1.0 + dice.gauss(0.0, noise))
            held = (memory or {}).get(one.case_id, 1e8 * (10 + size))
            steady: dict[str, Sequence[float]] = {"peak_rss_bytes": [held]}
            if one.placement.device == "cuda":
                steady = {"peak_reserved_bytes": [held]}
            trial = a_trial(
                [each_s] * 10, items=size, steady=steady, case_id=one.case_id, trial_id=f"t{len(taken)}", number=n,
                order=len(taken), facts={"task": str(one.workload.task)},
            )  # fmt: skip
            if one.case_id in failed:
                trial = msgspec.structs.replace(trial, outcome=Outcome(Status.OUT_OF_MEMORY, "no"), measurements=())
            taken.append(trial)
    day = f"2026-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}"
    run = a_run(taken, cases=[one for one, _ in cases], machine=on, findings=tuple(findings))
    about = {"run_id": f"{day.replace('-', '')}-{number:06d}-abcd", "started_utc": f"{day}T10:00:00Z", **head}
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, **about))


def store(folder: Path, runs: Sequence[Run]) -> None:
    """Write the records of these runs into an output folder."""
    records = folder / "records"
    records.mkdir(parents=True, exist_ok=True)
    for run in runs:
        (records / f"{run.head.run_id}.jsonl").write_bytes(b"".join(record_lines(run)))
