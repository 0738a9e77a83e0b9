"""The run whose summary seed S2 prints (printed/s2_benchmark_output.txt), as a record: a card of 80 GB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from build import a_machine, a_run, a_trial

from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Noted, Run
from torchstone.core.schema.trial import Measurement, Outcome, Series, Stage, Status, Trial
from torchstone.plugins.checking import look
from torchstone.storage.record_writer import RecordWriter

PRINTED = Path(__file__).parent / "acceptance" / "printed" / "s2_benchmark_output.txt"
GB = 1e9
CARD = DeviceInfo("cuda", "cuda", "nvidia", 0, "NVIDIA A100-SXM4-80GB", 80 * 10**9, precisions=("fp32", "tf32", "bf16"))
WORK = Workload(Task.TRAIN, "builtin:denoiser-small", "hdf5:data.h5", "sequence", fixed={"weights": "random"})
SETTINGS: Mapping[str, Any] = {
    "num_workers": 4, "pin_memory": True, "precision": "bf16", "feed": "loader", "compile": "off", "optimizer": "adamw",
    "fused": "auto", "grad_accumulation": 1, "gradient_checkpointing": False, "learning_rate": 3e-4,
    "sequence_length": 5160,
}  # fmt: skip
DATA_ITEMS = 178_000  # "Epoch: 45 s (178K samples)"
_LINE = re.compile(r" *(\d+) +(\d+) +Yes +(.*?) +(✅|OOM)")


class Line(NamedTuple):
    """A line of the printed table. Times in ms, `memory_gb` in 1e9 bytes; all 0 where it ran out of memory."""

    batch: int
    workers: int
    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    step: float = 0.0
    rate: float = 0.0
    percent: float = 0.0
    memory_gb: float = 0.0


def lines() -> list[Line]:
    """Return what the seed prints, the one that ran out of memory last."""
    found = [_LINE.match(line) for line in PRINTED.read_text(encoding="utf-8").splitlines()]
    return [Line(int(m[1]), int(m[2]), *map(float, m[3].split())) for m in found if m is not None]


def stored(folder: Path, run_id: str, *batches: int) -> None:
    """Store a run of these lines (all, if none is named): three trials each, 1 % apart."""
    chosen = [line for line in lines() if line.batch in batches or not batches]
    cases = [_case(line) for line in chosen]
    trials = [
        trial for line, case in zip(chosen, cases, strict=True) for trial in _trials(line, case, len(cases))
    ]  # fmt: skip
    run = a_run(
        sorted(trials, key=lambda trial: trial.order), cases=cases,
        machine=a_machine(devices=(CARD,), software={"torch": "2.9.0"}),
    )  # fmt: skip
    head = msgspec.structs.replace(run.head, run_id=run_id, name=run_id)
    run = msgspec.structs.replace(run, head=head)
    with RecordWriter(folder / "outputs" / "records" / f"{run_id}.jsonl", head) as writer:
        for one in (*run.trials, *_noted(run), run.end):
            assert one is not None
            writer.append(one)


def _noted(run: Run) -> Iterator[Noted]:
    yield from (Noted(finding) for finding in look(run))


def _case(line: Line) -> Case:
    return Case(WORK, {"batch_size": line.batch, **SETTINGS, "num_workers": line.workers}, Placement("cuda"))


def _trials(line: Line, case: Case, cases: int) -> Iterator[Trial]:
    for number in range(3):
        name = f"t{line.batch}-{number}"
        order = number * cases + line.batch.bit_length() - 1
        if not line.step:
            message = "CUDA out of memory. Tried to allocate 27.9 GiB; 55.7 of 74.5 GiB were in use"
            ended = Outcome(Status.OUT_OF_MEMORY, message)
            yield msgspec.structs.replace(
                a_trial(trial_id=name, case_id=case.case_id, number=number, order=order), outcome=ended, measurements=()
            )
            continue
        step_s = line.step * 1e-3 * (0.99 + 0.01 * number)
        parts = {"data": line.data, "forward": line.forward, "backward": line.backward}
        parts["rest"] = max(0.0, line.step - sum(parts.values()))
        phases = [
            Measurement("phase_time_s", Stage.STEADY, (ms * 1e-3,), "throughput", part) for part, ms in parts.items()
        ]
        at_s = tuple(2.0 + i * step_s for i in range(20))
        gauge = Series("device_utilization", "nvml", at_s, (line.percent / 100,) * 20)
        steps_s = [step_s * (1.0 + 1e-3 * (7 * i % 5 - 2)) for i in range(20)]
        yield a_trial(
            steps_s, items=line.batch, case_id=case.case_id, trial_id=name, number=number, order=order,
            steady={"peak_reserved_bytes": [line.memory_gb * GB]}, series=(gauge,), more=phases,
            facts={"dataset_items": DATA_ITEMS},
        )  # fmt: skip
