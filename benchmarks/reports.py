"""How soon a report is there, how large it is, what memory it takes: `torchstone report` as a whole process.

Two runs: 336 cases (seven batch sizes, twelve numbers of loading processes, two precisions, compiled or not) of five
trials each, and 100 cases of 100 trials each. Every trial is a copy of a real one that is taken here first (the small
CNN in training, 100 steps) with values of its own; the index of the store is there already.

A page carries the record that it was made from, up to 20 MiB, compressed: its own size is that without the record.
`--peaks`: with what this machine does at best, as far as `torchstone machine peaks` was asked here: a page then tells
what bounds each case, too.

    python benchmarks/reports.py [--runs 3] [--json FILE] [--peaks]        exit 1 if a bound below is exceeded
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from records import real_run

from torchstone.core.schema.case import Case
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import End, Noted, Plan, Run, Slot
from torchstone.core.schema.trial import Measurement, Trial
from torchstone.plugins.checking import look
from torchstone.report.verification import without_carried
from torchstone.storage.index import sync
from torchstone.storage.record_reader import record_path

# The command, and its peak memory with that of the process that draws beside it. Not its own ru_maxrss, in which a
# program begins with the peak of the one that started it; what it starts itself begins while it is small.
_PROGRAM = """import resource, sys
from torchstone.cli import main
code = main(sys.argv[1:])
own = dict(line.split(':', 1) for line in open('/proc/self/status', encoding='utf-8'))['VmHWM'].split()[0]
print(int(own) + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)"""
_RUN_ID = "20260101-000000-abcdef"


class Asked(NamedTuple):
    """A run that is reported, and the bounds: wall time by format, size of the page without its record, peak memory."""

    points: Sequence[Mapping[str, Any]]
    trials: int
    most_s: Mapping[str, float]
    most_bytes: int | None
    most_memory_bytes: int = 500_000_000


RUNS = {
    "336 cases × 5 trials": Asked(
        [
            {"batch_size": size, "num_workers": workers, "precision": precision, "compile": mode}
            for workers, precision, mode, size in itertools.product(
                range(12), ("fp32", "bf16"), ("off", "default"), [2**n for n in range(7)]
            )
        ],
        5, {"html": 3.0, "pdf": 10.0}, 1_500_000,
    ),
    "100 cases × 100 trials": Asked([{"batch_size": n + 1} for n in range(100)], 100, {"html": 5.0}, None),
}  # fmt: skip


def write_run(model: Run, folder: Path, asked: Asked) -> None:
    """Write a store of one run whose trials are copies of the one of `model`."""
    dice = random.Random(0)
    (case,) = model.head.plan.cases
    cases = tuple(
        msgspec.structs.replace(case, configuration={**case.configuration, **point}) for point in asked.points
    )
    slots = tuple(Slot(place, number) for number in range(asked.trials) for place in range(len(cases)))
    head = msgspec.structs.replace(model.head, run_id=_RUN_ID, plan=Plan(cases, slots))
    trials = tuple(
        as_of(cases[slot.case], model.trials[0], slot.number, order, dice) for order, slot in enumerate(slots)
    )
    findings = look(Run(head, trials, (), None))
    lines = [head, *trials, *map(Noted, findings), End(head.started_utc, "done")]
    (folder / "records").mkdir(parents=True)
    record_path(folder, _RUN_ID).write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    problems = sync(folder)
    if problems:
        raise ValueError(f"the store cannot be read: {problems}")


def as_of(case: Case, trial: Trial, number: int, order: int, dice: random.Random) -> Trial:
    """Return the trial as one of a Case: all its times by one factor, so that parts still sum to the whole."""
    factor, items = dice.lognormvariate(0.0, 0.05), float(str(case.configuration["batch_size"]))
    trial_id = f"{dice.getrandbits(48):012x}"
    return msgspec.structs.replace(
        trial, trial_id=trial_id, case_id=case.case_id, number=number, order=order,
        measurements=tuple(_of_case(one, factor, items) for one in trial.measurements),
    )  # fmt: skip


def _of_case(one: Measurement, factor: float, items: float) -> Measurement:
    if one.metric == "items":
        return msgspec.structs.replace(one, values=(items,) * len(one.values))
    if one.metric.endswith("_time_s"):
        return msgspec.structs.replace(one, values=tuple(value * factor for value in one.values))
    return one


def report(folder: Path, name: str, *, peaks: bool) -> tuple[float, int, int, int]:
    """Run `torchstone report` and return its time in s, the sizes without and with the record, the peak memory.

    Sizes and memory are in bytes. `peaks`: with those that were measured on this machine.
    """
    # With PYTHONDONTWRITEBYTECODE every start compiles every module again: not what a user has.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if not peaks:
        environment["TORCHSTONE_CACHE"] = str(folder / "cache")
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "report", _RUN_ID, "--format", name, "--output-dir", str(folder)],
        env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    took_s = time.perf_counter() - began_s
    peak_kib = int(done.stdout.split()[-1])
    file = (folder / "reports" / f"{_RUN_ID}.{name}").read_bytes()
    return took_s, len(without_carried(file)), len(file), peak_kib * 1024


def main() -> int:
    """Write, report, print; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="times each report is written (default 3)")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "reports.json")
    parser.add_argument("--peaks", action="store_true", help="with what this machine does at best")
    options = parser.parse_args()
    model = real_run()
    found: dict[str, Any] = {}
    good = True
    print(f"{'run':<24} {'format':<6} {'wall time':>10} {'file':>9} {'with record':>12} {'peak memory':>12}")
    for name, asked in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_run(model, Path(folder), asked)
            for kind, most_s in asked.most_s.items():
                report(Path(folder), kind, peaks=options.peaks)  # the first fills the caches
                taken = [report(Path(folder), kind, peaks=options.peaks) for _ in range(options.runs)]
                times_s, sizes, wholes, peaks = zip(*taken, strict=True)
                usual_s, size, peak = statistics.median(times_s), sizes[0], max(peaks)
                about = {"times_s": times_s, "bytes": size, "bytes_with_record": wholes[0], "peak_bytes": peak}
                found[f"{name}, {kind}"] = about
                bounds = (most_s, asked.most_bytes if kind == "html" else None, asked.most_memory_bytes)
                measured = zip(("time", "size", "memory"), (usual_s, size, peak), bounds, strict=True)
                over = [word for word, value, most in measured if most is not None and value > most]
                good = good and not over
                mark = f"  TOO MUCH {', '.join(over)}" if over else ""
                sizes_text = f"{size / 1e6:>6.2f} MB {wholes[0] / 1e6:>9.2f} MB"
                print(f"{name:<24} {kind:<6} {usual_s:>8.2f} s {sizes_text} {peak / 1e6:>9.0f} MB{mark}")
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "runs": found}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
