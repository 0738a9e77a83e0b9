"""Runs as `compare` gets them: a few seconds' worth of trials, with the figures that a test wants them to have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import encode
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.run import Plan, Run
from torchstone.core.schema.trial import Outcome, Status, Trial

_IDS = itertools.count(1)
BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def a_stored_run(
    steps_s: Sequence[float | None],
    case: Case | None = None,
    *others: tuple[Case, Sequence[float | None]],
    minutes: float = 0.0,
    machine: Machine | None = None,
    steps: int = 10,
    name: str = "test",
    head: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    **trial: Any,
) -> Run:
    """A run of one Case, or of these, trials in turn, each with steps of one length; None: it ran out of memory.

    `minutes`: when it began, after BEGAN; a trial takes 6 s.
    """
    cases = [(case or a_case(), steps_s), *others]
    number = next(_IDS)
    taken: list[Trial] = []
    for repetition in range(max(len(times) for _, times in cases)):
        for one, times in cases:
            if repetition >= len(times):
                continue
            at = BEGAN + timedelta(minutes=minutes, seconds=6 * len(taken))
            fields: dict[str, Any] = {
                "trial_id": f"r{number}t{len(taken)}", "case_id": one.case_id, "number": repetition,
                "order": len(taken), "started_utc": at.isoformat(), "duration_s": 6.0,
            }  # fmt: skip
            time_s, size = times[repetition], one.configuration.get("batch_size")
            assert isinstance(size, int)
            if time_s is None:
                outcome = Outcome(Status.OUT_OF_MEMORY, "it took all")
                taken.append(a_trial(**fields, outcome=outcome, measurements=()))
            else:
                told = {"task": str(one.workload.task), "parameters": 1000, **(facts or {})}
                taken.append(a_trial([time_s] * steps, items=size, facts=told, **fields, **trial))
    planned = tuple(one for one, _ in cases)
    run = a_run(taken, cases=planned, machine=machine or a_machine())
    about = {
        "run_id": f"run{number:04d}", "name": name, "started_utc": (BEGAN + timedelta(minutes=minutes)).isoformat(),
        "plan": Plan(planned, run.head.plan.slots), **(head or {}),
    }  # fmt: skip
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, **about))


def a_gpu(name: str, vendor: str = "nvidia", host: str = "host", **changes: Any) -> Machine:
    """A machine with one card."""
    kind = "rocm" if vendor == "amd" else "cuda"
    card = DeviceInfo(kind, "cuda", vendor, 0, name, 24 * 2**30, "8.9", driver="550.1", uuid=f"{host}-{name}")
    machine = a_machine(devices=(card,), **changes)
    return msgspec.structs.replace(machine, host=msgspec.structs.replace(machine.host, hostname=host))


def write_record(run: Run, folder: Path) -> Path:
    """Write the run into the records of an output folder and return the file."""
    path = folder / "records" / f"{run.head.run_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (run.head, *run.trials, *([run.end] if run.end is not None else []))
    path.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return path
