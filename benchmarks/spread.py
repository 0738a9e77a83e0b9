"""How far trials of the same code differ, by how their processes start and by how their heap behaves.

Five arms in turn, in seeded random order within each round: a new interpreter or a fork of one template that stays
open for the whole campaign, each with the default and with the fixed heap; and torchstone's default, a fork with the
fixed heap from a template renewed for the trial (a run renews it each round). The launchers and the driving of a trial
are the product's own, telemetry included.

Spread is the coefficient of variation of the trials' median steps: plain, robust (1.4826 × MAD / median), and with what
moves all arms of a round together taken out ("no drift": two-way layout of the logarithms, rounds × arms; each arm's
own variance by Grubbs 1948, since the plain residuals of one arm hold a share of every other arm's). Ratios of spreads
are against a new interpreter with the default heap; their 95 % intervals are percentiles of a bootstrap over rounds.
"±60 s" is the standard error of the mean of as many trials as fit into a minute: CV × √(wall / 60 s). The wall time of
the renewed arm holds the template's start, which a run shares among all cases of a round.

    python benchmarks/spread.py [--trials 20] [--only cnn|distilbert] [--json FILE]
    python benchmarks/spread.py --show [--json FILE]        the tables of a campaign that was measured before
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from torchstone.core.figures import figures
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution import plan
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.plugins.launchers.fork import Fork
from torchstone.plugins.launchers.spawn import Spawn
from torchstone.plugins.machine_protocols import Launcher

BUSY_CORES = 0.3  # a trial beside more than this is marked
BASE = "new, default heap"
DRAWS = 4000


class Arm(NamedTuple):
    """One way to start a trial. `renewed`: its template is opened anew for every trial."""

    make: Callable[[], Launcher]
    heap: str
    renewed: bool = False


ARMS: Mapping[str, Arm] = {
    BASE: Arm(Spawn, "default"),
    "new, fixed heap": Arm(Spawn, "fixed"),
    "fork, default heap": Arm(Fork, "default"),
    "fork, fixed heap": Arm(Fork, "fixed"),
    "fork, fixed, renewed": Arm(Fork, "fixed", renewed=True),
}
# Warm-up: 0.7 s of either. A count for the small net (its detection would end sooner), the budget for the large one.
WORKLOADS: Mapping[str, tuple[WorkloadRequest, Procedure]] = {
    "cnn": (
        WorkloadRequest("train", "builtin:cnn", axes={"batch_size": (16,), "image_size": (32,), "optimizer": ("sgd",)}),
        Procedure(warmup=60, warmup_budget_s=0.7, target=None, budget_s=1.0, timeout_s=120.0, count_flops=False),
    ),
    "distilbert": (
        WorkloadRequest(
            "infer", "hf:distilbert-base-uncased",
            axes={"batch_size": (1,), "sequence_length": (128,), "mode": ("throughput",)},
        ),
        Procedure(warmup_budget_s=0.7, target=None, budget_s=2.0, timeout_s=180.0, count_flops=False),
    ),
}  # fmt: skip

Row = dict[str, Any]
Cells = dict[str, dict[int, float]]  # arm → round → logarithm of the median step


def measure(name: str, rounds: int, device: DeviceInfo | None, keep: Callable[[Row], None]) -> None:
    """Take the rounds of one workload, handing each trial to `keep`."""
    ask, procedure = WORKLOADS[name]
    sketch = plan.sketch(ask)
    case = Case(sketch.workload, sketch.configurations[0], Placement("cpu"))
    dice = random.Random(1)
    with contextlib.ExitStack() as stack:
        launchers = {arm: how.make() for arm, how in ARMS.items()}
        for arm, launcher in launchers.items():
            stack.callback(launcher.close)
            if not ARMS[arm].renewed:
                launcher.open([ask.model], ARMS[arm].heap)
        for number in range(rounds):
            for arm in dice.sample(list(ARMS), len(ARMS)):
                own = msgspec.structs.replace(procedure, heap=ARMS[arm].heap)
                began_s = time.perf_counter()
                if ARMS[arm].renewed:
                    launchers[arm].open([ask.model], ARMS[arm].heap)
                trial = TrialDrive(TrialRequest(case, own, number), device, Silent()).run(launchers[arm], number)
                row = row_of(trial, {"workload": name, "arm": arm, "round": number})
                keep(row | {"wall_s": round(time.perf_counter() - began_s, 4)})


def row_of(trial: Trial, row: Row) -> Row:
    """Return what is kept of a trial."""
    if trial.outcome.status != Status.OK:
        return row | {"failed": f"{trial.outcome.status}: {trial.outcome.message}"}
    found = figures(trial).values
    names = {
        "step_s": "step_time_p50", "mean_s": "step_time_mean", "steps": "steps", "faults": "minor_faults_per_step",
        "other_cores": "other_cpu_cores", "steal": "steal_share", "start_s": "start_time_s",
    }  # fmt: skip
    return row | {short: found.get(name) for short, name in names.items()} | {"trial_s": trial.duration_s}


def is_busy(row: Row) -> bool:
    """Return whether another process was in the way."""
    return (row["other_cores"] or 0.0) > BUSY_CORES


def cv(values: Sequence[float]) -> float:
    """Return standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else math.nan


def robust_cv(values: Sequence[float]) -> float:
    """Return 1.4826 × the median absolute deviation over the median."""
    centre = statistics.median(values) if values else math.nan
    return 1.4826 * statistics.median(abs(v - centre) for v in values) / centre if len(values) > 1 else math.nan


def own_spreads(cells: Cells, drawn: Sequence[int]) -> dict[str, float]:
    """Return each arm's spread with the rounds' own effect taken out, from the rounds in which every arm has a trial.

    With A arms and R rounds a residual's expected mean square is (1 - 2/A) σ² of its own arm + the sum of all arms' σ²
    over A²; solving that for the own σ² is Grubbs' estimator. Below 0 it is given as 0.
    """
    whole = [r for r in drawn if all(r in by_round for by_round in cells.values())]
    count, arms = len(whole), len(cells)
    if count < 3 or arms < 3:
        return dict.fromkeys(cells, math.nan)
    by_arm = {arm: statistics.fmean(by_round[r] for r in whole) for arm, by_round in cells.items()}
    by_round = {r: statistics.fmean(cells[arm][r] for arm in cells) for r in set(whole)}
    middle = statistics.fmean(by_arm.values())
    squares = {
        arm: sum((cells[arm][r] - by_arm[arm] - by_round[r] + middle) ** 2 for r in whole) / (count - 1)
        for arm in cells
    }
    every = sum(squares.values()) / (1 - 1 / arms)
    return {arm: math.sqrt(max(0.0, (s - every / arms**2) / (1 - 2 / arms))) for arm, s in squares.items()}


def spreads(cells: Cells, drawn: Sequence[int]) -> dict[str, tuple[float, float, float]]:
    """Return (CV, robust CV, CV without the rounds) of each arm over the drawn rounds."""
    own = own_spreads(cells, drawn)
    steps = {arm: [math.exp(by_round[r]) for r in drawn if r in by_round] for arm, by_round in cells.items()}
    return {arm: (cv(values), robust_cv(values), own[arm]) for arm, values in steps.items()}


def ratios(cells: Cells, rounds: Sequence[int]) -> dict[str, list[tuple[float, float, float]]]:
    """Return, for each arm, (ratio to the base, low, high) of its three spreads."""
    dice = random.Random(2)
    draws = [spreads(cells, dice.choices(rounds, k=len(rounds))) for _ in range(DRAWS)]
    here = spreads(cells, rounds)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for arm in cells:
        found[arm] = []
        for kind in range(3):
            every = sorted(
                d[arm][kind] / d[BASE][kind] for d in draws if d[BASE][kind] > 0 and math.isfinite(d[arm][kind])
            )
            low, high = (every[int(q * (len(every) - 1))] for q in (0.025, 0.975)) if every else (math.nan, math.nan)
            base = here[BASE][kind]
            found[arm].append((here[arm][kind] / base if base > 0 else math.nan, low, high))
    return found


def show(name: str, rows: Sequence[Row], what: str) -> None:
    """Print the two tables of one workload."""
    cells: Cells = {a: {r["round"]: math.log(r["step_s"]) for r in rows if r["arm"] == a} for a in ARMS}
    rounds = sorted({r["round"] for r in rows})
    if len(rounds) < 2 or not all(cells.values()):
        print(f"\n{name}, {what}: too few trials")
        return
    by_kind = spreads(cells, rounds)
    print(f"\n{name}, {what}: {len(rows)} trials in {len(rounds)} rounds")
    print(
        f"{'start and heap':<22} {'n':>3} {'median':>9} {'CV':>7} {'robust':>7} {'no drift':>8} {'faults':>8}", end=" "
    )
    print(f"{'steal':>6} {'start':>7} {'wall':>7} {'±60 s':>6}")
    for arm in ARMS:
        mine = [r for r in rows if r["arm"] == arm]
        usual, walls = statistics.median(r["step_s"] for r in mine), [r["wall_s"] for r in mine]
        faults = statistics.median(r["faults"] or 0.0 for r in mine)
        plain, robust, own = by_kind[arm]
        start, steal = statistics.median(r["start_s"] for r in mine), max(r["steal"] or 0.0 for r in mine)
        minute = plain * math.sqrt(statistics.median(walls) / 60)  # standard error of what a minute of trials says
        print(f"{arm:<22} {len(mine):>3} {1e3 * usual:>6.2f} ms {plain:>7.1%} {robust:>7.1%} {own:>8.1%}", end=" ")
        print(f"{faults:>8.1f} {steal:>6.1%} {start:>5.2f} s {statistics.median(walls):>5.2f} s {minute:>6.2%}")
    print(f"{'spread against base':<22} {'CV':>22} {'robust':>22} {'no drift':>22}")
    for arm, found in ratios(cells, rounds).items():
        if arm != BASE:
            print(f"{arm:<22}" + "".join(f"{f'{v:.2f} [{low:.2f}, {high:.2f}]':>23}" for v, low, high in found))


def report(data: Mapping[str, Any]) -> None:
    """Print every workload of a campaign, with and without its marked trials."""
    for name in WORKLOADS:
        rows = [r for r in data["trials"] if r["workload"] == name]
        good = [r for r in rows if "failed" not in r]
        for row in rows:
            if "failed" in row:
                print(f"FAILED {name}, round {row['round']}, {row['arm']}: {row['failed']}")
        if not good:
            continue
        quiet = [r for r in good if not is_busy(r)]
        show(name, good, "all")
        if len(quiet) < len(good):
            by_arm = ", ".join(f"{arm} {sum(is_busy(r) for r in good if r['arm'] == arm)}" for arm in ARMS)
            print(f"beside another process (> {BUSY_CORES} cores): {len(good) - len(quiet)} trials ({by_arm})")
            show(name, quiet, "quiet ones only")
        else:
            print(f"no trial ran beside another process (> {BUSY_CORES} cores)")


def main() -> None:
    """Measure, keep the raw rows as they come, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20, help="rounds: trials of each arm (default 20)")
    parser.add_argument("--only", choices=tuple(WORKLOADS))
    parser.add_argument("--show", action="store_true", help="measure nothing, print what --json holds")
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "spread.json")
    options = parser.parse_args()
    if options.show:
        report(json.loads(options.json.read_text()))
        return
    with Session(Procedure(isolation="spawn"), ()) as session:
        machine, _ = session.inspect()
    data: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "processor": machine.host.processor, "cores": machine.host.logical_cores,
        "software": {k: machine.software.get(k) for k in ("python", "torch", "transformers")}, "trials": [],
    }  # fmt: skip

    def keep(row: Row) -> None:
        data["trials"].append(row)
        said = row.get("failed") or f"{1e3 * row['step_s']:8.2f} ms"
        print(f"{row['workload']} {row['round']:>3} {row['arm']:<22} {said}  {row['wall_s']:6.2f} s", file=sys.stderr)
        options.json.write_text(json.dumps(data))

    for name in [options.only] if options.only else WORKLOADS:
        measure(name, options.trials, machine.device("cpu", 0), keep)
    report(data)


if __name__ == "__main__":
    main()
