"""How often the intervals of a run hold: few trials, cases that spread differently, history that misleads, real noise.

    benchmarks/intervals.py [--runs N] [--noise ../shared/data/noise]

Simulated trials have normal logarithms about a true value; `torchstone.core.stats` makes the interval that a run
prints. Replayed are 21 rounds of four processes on a shared machine. Prints a table and writes data/intervals.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from torchstone.core.stats.best_of_many import pair_level
from torchstone.core.stats.comparing import by_rounds, prior_of
from torchstone.core.stats.moderated import half_width, of_history, of_siblings, trial_spread
from torchstone.execution.controller.rounds import FEWEST

DATA = Path(__file__).parent / "data" / "intervals.json"
USUAL, TRIALS = 0.05, (2, 3, 5, 10)


def half(logs: Sequence[float], prior: Any) -> float:
    spread = trial_spread(logs)
    return half_width(spread, len(logs), prior) if spread is not None else math.inf


def with_history(trials: int, times: float, runs: int, dice: random.Random) -> dict[str, float]:
    """Coverage where the machine spreads `times` as far as history says; the width beside Student's."""
    held, ratio = 0, []
    for _ in range(runs):
        logs = [dice.gauss(0.0, times * USUAL) for _ in range(trials)]
        width = half(logs, of_history(USUAL))
        held += abs(fmean(logs)) <= width
        ratio.append(width / half(logs, None))
    return {"covered": held / runs, "width": sorted(ratio)[runs // 2]}


def of_a_run(cases: int, trials: int, apart: float, runs: int, dice: random.Random) -> dict[str, float]:
    """Coverage over the cases of a run whose spreads differ by so much (standard deviation of their logarithm)."""
    held, ratio = 0, []
    for _ in range(runs):
        spreads = [USUAL * math.exp(dice.gauss(0.0, apart)) for _ in range(cases)]
        logs = [[dice.gauss(0.0, spread) for _ in range(trials)] for spread in spreads]
        seen = [trial_spread(one) for one in logs]
        for place, one in enumerate(logs):
            width = half(one, of_siblings([s for at, s in enumerate(seen) if at != place and s is not None]))
            held += abs(fmean(one)) <= width
            ratio.append(width / half(one, None))
    return {"covered": held / (runs * cases), "width": sorted(ratio)[len(ratio) // 2]}


def stopped(deviation: float, aim: float, runs: int, dice: random.Random) -> dict[str, float]:
    """Coverage where a case gets trials until its interval is within ±aim."""
    held = taken = 0
    for _ in range(runs):
        logs = [dice.gauss(0.0, deviation) for _ in range(FEWEST)]
        while math.expm1(half(logs, None)) > aim and len(logs) < 60:
            logs.append(dice.gauss(0.0, deviation))
        held += abs(fmean(logs)) <= half(logs, None)
        taken += len(logs)
    return {"covered": held / runs, "trials": taken / runs}


def called_faster(cases: int, rounds: int, runs: int, dice: random.Random) -> float:
    """Share of runs of equal cases in which the fastest is told from another, on a machine that drifts by rounds."""
    wrong = 0
    for _ in range(runs):
        drift = [dice.gauss(0.0, 0.08) for _ in range(rounds)]
        every = [{r: drift[r] + dice.gauss(0.0, USUAL) for r in range(rounds)} for _ in range(cases)]
        top = max(every, key=lambda case: fmean(case.values()))
        prior = prior_of(every)
        found = [by_rounds(top, other, prior) for other in every if other is not top]
        wrong += any(c is not None and c.interval(pair_level(cases))[0] > 0.0 for c in found)
    return wrong / runs


def replayed(folder: Path, draws: int, dice: random.Random) -> Iterator[dict[str, Any]]:
    """Coverage on recorded processes: does the interval of a few rounds hold the mean of all others?"""
    cases: dict[str, list[float]] = {}
    for one in json.loads((folder / "processes.json").read_text())["recs"]:
        if not one["inject_us"]:
            cases.setdefault(f"{one['job']} {one['tag']}", []).append(math.log(fmean(one["ns"])))
    for trials in TRIALS:
        held = taken = 0
        for _ in range(draws):
            rounds = dice.sample(range(21), trials)
            for name, values in cases.items():
                beside = [trial_spread([other[r] for r in rounds]) for at, other in cases.items() if at != name]
                rest = [value for r, value in enumerate(values) if r not in rounds]
                width = half([values[r] for r in rounds], of_siblings([s for s in beside if s is not None]))
                reach = width * math.sqrt(1.0 + trials / len(rest))
                held += abs(fmean([values[r] for r in rounds]) - fmean(rest)) <= reach
                taken += 1
        yield {"trials": trials, "covered": held / taken}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--noise", type=Path, default=Path(__file__).parents[2] / "shared" / "data" / "noise")
    asked = parser.parse_args()
    dice, n = random.Random(0), asked.runs
    found: dict[str, Any] = {
        "history": [
            {"trials": t, "times": x, **with_history(t, x, n, dice)} for x in (0.5, 1, 2, 3, 5) for t in TRIALS
        ],
        "siblings": [
            {"cases": c, "trials": t, "apart": a, **of_a_run(c, t, a, n // c, dice)}
            for c in (2, 4, 8, 16) for a in (0.0, 0.5) for t in TRIALS
        ],
        "stopped": [{"deviation": s, **stopped(s, 0.05, n, dice)} for s in (0.02, 0.04, 0.06, 0.08, 0.1, 0.15)],
        "called_faster": [
            {"cases": c, "rounds": r, "share": called_faster(c, r, n // 4, dice)}
            for c in (2, 3, 5, 16) for r in (3, 5, 10)
        ],
    }  # fmt: skip
    if (asked.noise / "processes.json").is_file():
        found["replayed"] = list(replayed(asked.noise, n // 2, dice))
    for name, rows in found.items():
        print(name)
        for row in rows:
            print("  " + "  ".join(f"{key} {value:.4g}" for key, value in row.items()))
    DATA.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
