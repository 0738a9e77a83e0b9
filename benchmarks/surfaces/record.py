"""Records throughput over a whole grid of 336 settings from real trials: `record.py mlp|cnn|gesture`.

14 batch sizes × 6 loader worker counts × 2 precisions × 2 values of pin_memory, each a trial of torchstone's own: the
loader's queue drained, then a short window. On the CPU torch ignores pin_memory (torchstone refuses it), so the two
halves are the same programs taken twice, at different times: their difference is real noise. Between them, the parts:
the loader alone (batch × workers) and the device alone (batch × precision). All in one random order; a trial
during which others used the cores is taken again.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.message import TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Stage
from torchstone.execution import plan
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive

FOLDER = Path(__file__).parent / "recorded"
BATCHES = [2**n for n in range(14)]
WORKERS = [0, 2, 4, 8, 12, 16]
PRECISIONS = ["fp32", "bf16"]
PINS = [False, True]
PREFETCH = 2
WORKLOADS = {
    "mlp": WorkloadRequest("train", "builtin:mlp", "synthetic", axes={"image_size": [8]}),
    "cnn": WorkloadRequest("infer", "builtin:cnn", "synthetic", axes={"image_size": [4], "mode": ["throughput"]}),
    "gesture": WorkloadRequest(
        "infer", "builtin:gesture-tiny", "synthetic", axes={"sequence_length": [8], "mode": ["throughput"]}
    ),
}
PROCEDURE = Procedure(
    warmup=3, warmup_budget_s=0.1, budget_s=0.6, min_steps=4, timeout_s=180.0, count_flops=False,
    telemetry_period_s=0.5,
)  # fmt: skip
QUIET_CORES = 0.15
COLUMNS = ("kind", "batch", "workers", "precision", "pin", "status", "items_per_s", "duration_s", "window_s", "steps",
           "wait_share", "peak_rss_bytes")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(WORKLOADS))
    parser.add_argument("--limit", type=int, help="only so many trials (a try)")
    parser.add_argument("--again", action="store_true", help="only what the recording has with less than two turns")
    options = parser.parse_args()
    sketch = plan.sketch(WORKLOADS[options.name])
    rows: list[list[Any]] = recorded_well(options.name) if options.again else []
    known = {tuple(row[:5]) for row in rows}
    with Session(PROCEDURE, [sketch.workload.model], Silent()) as session:
        machine, _ = session.inspect()
        jobs = [job for job in in_random_order() if job not in known][: options.limit]
        for number, job in enumerate(jobs):
            rows.append([*job, *undisturbed(session, case_of(sketch, job))])
            if number % 20 == 0:
                print(f"{number}/{len(jobs)} {rows[-1]}", file=sys.stderr, flush=True)
    grid = {
        "name": options.name, "recorded_utc": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": machine.host.processor, "torch": machine.software.get("torch"),
        "procedure": msgspec.structs.asdict(PROCEDURE), "columns": COLUMNS, "rows": rows,
    }  # fmt: skip
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{options.name}{'_try' if options.limit else ''}.json"
    path.write_text(json.dumps(grid, separators=(",", ":")).replace('],["', '],\n["') + "\n")
    print(path)


def recorded_well(name: str) -> list[list[Any]]:
    """Return the rows of a recording whose windows had two turns of the loader at least: the rule that now holds."""
    rows: list[list[Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    steps = COLUMNS.index("steps")
    return [row for row in rows if row[0] == "device" or row[steps] >= 2 * PREFETCH * row[2]]


def in_random_order() -> list[tuple[str, int, int, str, bool]]:
    jobs = [("whole", *point) for point in itertools.product(BATCHES, WORKERS, PRECISIONS, PINS)]
    jobs += [("device", batch, 0, precision, False) for batch in BATCHES for precision in PRECISIONS]
    jobs += [("loader", batch, workers, "fp32", False) for batch in BATCHES for workers in WORKERS]
    random.Random(1).shuffle(jobs)
    return jobs


def case_of(sketch: plan.Sketch, job: tuple[str, int, int, str, bool]) -> Case:
    kind, batch, workers, precision, _ = job
    feed = "resident" if kind == "device" else "loader"
    changed: dict[str, Scalar] = {"batch_size": batch, "num_workers": workers, "precision": precision, "feed": feed}
    workload = msgspec.structs.replace(sketch.workload, task=Task.LOAD) if kind == "loader" else sketch.workload
    return Case(workload, {**sketch.configurations[0], **changed}, Placement("cpu"))


def undisturbed(session: Session, case: Case) -> list[Any]:
    """Take the trial again until nothing else used the cores meanwhile: a neighbour slows a step 5 to 15 times."""
    while True:
        while busy_cores(0.2) > QUIET_CORES:
            time.sleep(1.0)
        row, others = measured(session, case)
        if others is None or others <= QUIET_CORES:
            return row


def busy_cores(during_s: float) -> float:
    before = sum(psutil.cpu_times()) - psutil.cpu_times().idle
    time.sleep(during_s)
    return (sum(psutil.cpu_times()) - psutil.cpu_times().idle - before) / during_s


def measured(session: Session, case: Case) -> tuple[list[Any], float | None]:
    began_s = time.perf_counter()
    trial = TrialDrive(TrialRequest(case, PROCEDURE, 0), None, Silent()).run(session.launcher, 0)
    values = figures(trial).values
    window = trial.values("window_time_s", Stage.STEADY)
    peak = values.get("peak_rss_bytes")
    return [
        str(trial.outcome.status), short(values.get("throughput")), short(time.perf_counter() - began_s),
        short(window[0] if window else None), int(values.get("steps", 0)), short(values.get("data_wait_share")),
        int(peak) if peak is not None else None,
    ], values.get("other_cpu_cores")  # fmt: skip


def short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


if __name__ == "__main__":
    main()
