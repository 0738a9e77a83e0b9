"""How soon 10,000 stored trials answer: `torchstone runs` and `torchstone show latest` as whole processes.

Two stores: 100 runs of 100 trials (20 cases, 5 trials each), and one run of 10,000 (100 cases, 100 trials each). Every
trial is a copy of a real one that is taken here first (the small CNN in training, 100 steps), with an id and values of
its own. The first look at a store reads every record into the index; it is timed by itself. Each command must be there
within 0.5 s afterwards.

    python benchmarks/records.py [--runs 7] [--json FILE] [--profile]        exit 1 if a command takes longer
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.run_file import RunRequest
from torchstone.core.figures import figures
from torchstone.core.schema.codec import encode
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.run import End, Noted, Plan, Run, Slot
from torchstone.core.schema.trial import Measurement, Trial
from torchstone.execution.controller.observer import Silent
from torchstone.plugins.checking import look
from torchstone.storage.index import sync
from torchstone.storage.query import find
from torchstone.storage.record_reader import read_record, record_path
from torchstone.workflows.run.planned_run import Campaign

PROMISED_S = 0.5
COMMANDS = (["runs"], ["show", "latest"])
STORES: Mapping[str, tuple[int, int, int]] = {  # runs, cases of each, trials of each case
    "100 runs × 100 trials": (100, 20, 5),
    "1 run × 10,000 trials": (1, 100, 100),
}


def real_run() -> Run:
    """Measure one trial and return its run."""
    axes = {"batch_size": (4,), "image_size": (32,)}
    request = RunRequest((WorkloadRequest("train", "builtin:cnn", axes=axes),), procedure=Procedure(1, iterations=100))
    with tempfile.TemporaryDirectory() as folder:
        Campaign(request, Silent()).carry_out(Path(folder), ["records"])
        (path,) = (Path(folder) / "records").glob("*.jsonl")
        return read_record(path)


def store_of(model: Run, folder: Path, runs: int, cases: int, trials: int) -> float:
    """Write a store of copies of `model` and return how long the checks of one run of it took."""
    dice = random.Random(0)
    checked_s = []
    (folder / "records").mkdir(parents=True)
    (case,) = model.head.plan.cases
    every = tuple(
        msgspec.structs.replace(case, configuration={**case.configuration, "batch_size": n + 1}) for n in range(cases)
    )
    plan = Plan(every, tuple(Slot(c, n) for n in range(trials) for c in range(cases)))
    ids = [one.case_id for one in every]
    for number in range(runs):
        run_id = f"20260101-{number:06d}-{dice.getrandbits(24):06x}"
        started = f"2026-01-01T{number // 60:02d}:{number % 60:02d}:00+00:00"
        head = msgspec.structs.replace(model.head, run_id=run_id, started_utc=started, plan=plan)
        copies = tuple(copy_of(model.trials[0], ids[s.case], s.number, i, dice) for i, s in enumerate(plan.slots))
        began_s = time.perf_counter()
        findings = look(Run(head, copies, (), None))
        checked_s.append(time.perf_counter() - began_s)
        lines = [head, *copies, *map(Noted, findings), End(started, "done")]
        record_path(folder, run_id).write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return statistics.median(checked_s)


def copy_of(trial: Trial, case_id: str, number: int, order: int, dice: random.Random) -> Trial:
    """Return the trial with another id and with other times."""
    scale = dice.lognormvariate(0.0, 0.05)

    def moved(m: Measurement) -> Measurement:
        if not m.metric.endswith("_time_s"):
            return m
        return msgspec.structs.replace(
            m, values=tuple(round(v * scale * dice.uniform(0.98, 1.02), 9) for v in m.values)
        )

    return msgspec.structs.replace(
        trial, trial_id=f"{dice.getrandbits(48):012x}", case_id=case_id, number=number, order=order,
        measurements=tuple(map(moved, trial.measurements)),
    )  # fmt: skip


def profile_of(folder: Path) -> str:
    """Return where the time of `show latest` goes, once Python and torchstone are imported."""
    from torchstone.analysis.summary import summarize

    profiler = cProfile.Profile()
    profiler.enable()
    summarize(find(folder, "latest"))
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(18)
    return text.getvalue()


def main() -> int:
    """Build, index, time, print; return 1 if a command takes longer than promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="times each command is run (default 7)")
    parser.add_argument("--profile", action="store_true", help="also print where the time of show goes")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "records.json")
    options = parser.parse_args()
    # With this set, nothing is cached and every start compiles every module again: not what a user has.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    torchstone = str(Path(sys.executable).parent / "torchstone")
    model = real_run()
    trial = model.trials[0]
    values = sum(len(m.values) for m in trial.measurements) + sum(len(s.values) for s in trial.series)
    print(f"a trial: {len(figures(trial).values)} figures, {values} values, {len(encode(trial))} bytes")
    results: dict[str, Any] = {}
    for name, (runs, cases, trials) in STORES.items():
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top)
            checks_s = store_of(model, folder, runs, cases, trials)
            size = sum(file.stat().st_size for file in (folder / "records").iterdir())
            began_s = time.perf_counter()
            problems = sync(folder)
            index_s = time.perf_counter() - began_s
            assert not problems, problems
            times_s: dict[str, list[float]] = {" ".join(words): [] for words in COMMANDS}
            for turn in range(options.runs + 1):
                for words in COMMANDS:
                    began_s = time.perf_counter()
                    own = environment | {"TORCHSTONE_OUTPUT": str(folder)}
                    subprocess.run([torchstone, *words], env=own, check=True, stdout=subprocess.DEVNULL)
                    if turn:  # the first turn fills the caches
                        times_s[" ".join(words)].append(time.perf_counter() - began_s)
            results[name] = {"record_bytes": size, "checks_s": checks_s, "index_s": index_s, "commands_s": times_s}
            if options.profile:
                print(f"\n{name}\n{profile_of(folder)}")
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "stores": results}))
    good = True
    print(f"{'store':<22} {'records':>9} {'indexing':>9}  {'command':<24} {'median':>8} (promised {PROMISED_S:g} s)")
    for name, found in results.items():
        for command, measured in found["commands_s"].items():
            usual_s = statistics.median(measured)
            good = good and usual_s <= PROMISED_S
            mark = "" if usual_s <= PROMISED_S else "  TOO LONG"
            sizes = f"{found['record_bytes'] / 1e6:>6.1f} MB {found['index_s']:>7.1f} s"
            span = f"({min(measured):.3f} to {max(measured):.3f}){mark}"
            print(f"{name:<22} {sizes}  torchstone {command:<13} {usual_s:>6.3f} s {span}")
        print(f"{'':<22} checks of one run {found['checks_s']:.2f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
