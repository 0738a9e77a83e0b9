"""How often `torchstone compare` is wrong: two stored runs of the same code, under noise of every kind.

Simulated: what differs between processes (normal, or of two modes), and on top of it a drift of the machine that both
runs sit on, in succession or with twice their length between them. Recorded: trials of equal code on a shared machine
(`benchmarks/data/spread.json`, and the folder noise/ of the data beside the checkout), cut into two runs of k trials in
succession. Each pair gets an interval of 95 % and a verdict against a margin of 2 %. Beside it, on the same pairs:
Welch's t over trials as it is in textbooks, and "differs by 5 %".

    covered    the interval holds the true ratio
    false      better or worse, where both are the same
    same?      "same", where one is 5 % slower: never more than 2.5 %
    found      better or worse and the right way, where one is 30 % slower

    python benchmarks/compare.py [--draws 4000] [--json FILE]      exit 1 if a promise does not hold
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.schema.comparison import Judgement, judge
from torchstone.core.stats.comparing import Difference, difference, drift_seen, of_independent, run_mean

MARGIN, LEVEL = 0.02, 0.95
SD = 0.10  # of the logarithm between processes; measured are 2 to 22 %
TRIALS = (3, 5, 10)
DATA = Path(__file__).parent / "data"
NOISE = Path(__file__).parents[2] / "shared" / "data" / "noise" / "processes.json"
Noise = Callable[[random.Random, int], list[float]]


def independent(dice: random.Random, n: int) -> list[float]:
    """Processes that differ, on a machine that stays as it is."""
    return [dice.gauss(0.0, SD) for _ in range(n)]


def modes(dice: random.Random, n: int) -> list[float]:
    """Processes of two modes: three in ten are 28 % slower."""
    return [dice.gauss(0.0, 0.3 * SD) + (0.25 if dice.random() < 0.3 else 0.0) for _ in range(n)]


def wandering(length: float, share: float = 0.5) -> Noise:
    """A machine whose pace wanders and comes back over `length` trials, and makes up this share of the variance."""

    def draw(dice: random.Random, n: int) -> list[float]:
        keep, state, found = math.exp(-1.0 / length), dice.gauss(0.0, 1.0), []
        for _ in range(n):
            found.append(SD * (math.sqrt(share) * state + math.sqrt(1.0 - share) * dice.gauss(0.0, 1.0)))
            state = keep * state + math.sqrt(1.0 - keep * keep) * dice.gauss(0.0, 1.0)
        return found

    return draw


def walk(dice: random.Random, n: int) -> list[float]:
    """A machine whose pace wanders off, by a third of the spread of processes a trial."""
    state, found = 0.0, []
    for _ in range(n):
        state += dice.gauss(0.0, 0.3 * SD)
        found.append(state + dice.gauss(0.0, SD))
    return found


def rising(dice: random.Random, n: int) -> list[float]:
    """A machine that becomes slower (or faster) all the time: 4 % over the trials of the longest run."""
    way = dice.choice((-0.4, 0.4)) * SD / max(TRIALS)
    return [way * i + dice.gauss(0.0, SD) for i in range(n)]


SCENES: dict[str, Noise] = {
    "independent": independent, "two modes": modes, "wandering, 1 trial": wandering(1.0),
    "wandering, 3": wandering(3.0), "wandering, 10": wandering(10.0), "wandering, 30": wandering(30.0),
    "random walk": walk, "rising": rising,
}  # fmt: skip


def contrast(a: Sequence[float], b: Sequence[float], apart: float) -> Difference:
    """Return what compare makes of two runs of one Case on one machine: logs, a value a trial."""
    mine, yours = (run_mean(logs, apart, drift_seen([(list(range(len(logs))), logs)])) for logs in (a, b))
    return difference(mine, yours)


def verdict(found: Difference, level: float = LEVEL) -> Judgement:
    """Return the verdict about the second run, of a time."""
    low, high = found.interval(level)
    return judge(math.exp(low), math.exp(high), MARGIN, higher_is_better=False)


def tally(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], apart: float) -> dict[str, float]:
    """Return the rates over pairs of runs of equal code, and of the same with a true difference put in."""
    found: dict[str, int] = dict.fromkeys(("covered", "false", "same5", "found30", "welch", "threshold"), 0)
    for a, b in pairs:
        same = contrast(a, b, apart)
        low, high = same.interval(LEVEL)
        found["covered"] += low <= 0.0 <= high
        found["false"] += verdict(same) in (Judgement.BETTER, Judgement.WORSE)
        plain = difference(of_independent(a), of_independent(b))
        found["welch"] += verdict(plain) in (Judgement.BETTER, Judgement.WORSE)
        found["threshold"] += abs(math.expm1(same.log)) > 0.05
        for name, by, wanted in (("same5", 0.05, Judgement.SAME), ("found30", 0.30, Judgement.WORSE)):
            moved = contrast(a, [log + math.log1p(by) for log in b], apart)
            found[name] += verdict(moved) == wanted
    return {name: count / len(pairs) for name, count in found.items()}


def simulated(draws: int, seed: int = 5) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of noise, number of trials and distance of the runs."""
    for trials in TRIALS:
        for apart in (0.0, 2.0):
            for name, noise in SCENES.items():
                dice = random.Random(f"{seed} {name} {trials} {apart}")
                gap, pairs = int(apart * trials), []
                for _ in range(draws):
                    values = noise(dice, 2 * trials + gap)
                    pairs.append((values[:trials], values[trials + gap :]))
                yield {"noise": name, "trials": trials, "apart": apart, "pairs": draws, **tally(pairs, apart)}


def recorded() -> dict[str, list[float]]:
    """Return the recorded series of equal trials, logs of their median steps in the order taken."""
    found: dict[str, list[float]] = {}
    for trial in json.loads((DATA / "spread.json").read_text())["trials"]:
        found.setdefault(f"{trial['workload']}, {trial['arm']}", []).append(math.log(trial["step_s"]))
    if NOISE.is_file():
        for one in json.loads(NOISE.read_text())["recs"]:
            if not one["inject_us"]:
                found.setdefault(f"{one['job']}, shared machine", []).append(math.log(statistics.median(one["ns"])))
    return found


def replayed(series: dict[str, list[float]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of trials and distance: every place in every series, each series with one weight."""
    for apart in (0.0, 1.0):
        for trials in (3, 5, 8, 10):
            gap, rows = int(apart * trials), []
            for values in series.values():
                last = len(values) - 2 * trials - gap
                pairs = [
                    (values[i : i + trials], values[i + trials + gap : i + 2 * trials + gap]) for i in range(last + 1)
                ]
                if pairs:
                    rows.append((len(pairs), tally(pairs, apart)))
            if len(rows) >= 6:
                rates = {name: statistics.fmean(row[name] for _, row in rows) for name in rows[0][1]}
                yield {
                    "noise": f"recorded, {len(rows)} series", "trials": trials, "apart": apart,
                    "pairs": sum(count for count, _ in rows), **rates,
                }  # fmt: skip


def broken(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return which promises do not hold: of runs in succession; "same" nowhere."""
    told = []
    for row in rows:
        where = f"{row['noise']}, {row['trials']} trials, {row['apart']:g} lengths apart"
        error = 2.0 * math.sqrt(0.05 * 0.95 / row["pairs"])
        if row["apart"] == 0.0 and row["false"] > 0.05 + error:
            told.append(f"{where}: {row['false']:.1%} false alarms")
        if row["apart"] == 0.0 and row["covered"] < 0.93 - error:
            told.append(f"{where}: {row['covered']:.1%} covered")
        if row["same5"] > 0.025 + error:
            told.append(f"{where}: {row['same5']:.1%} of a true 5 % called the same")
    return told


def main() -> int:
    """Simulate, replay, print, write; return 1 if a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000, help="pairs of runs of each kind (default 4000)")
    parser.add_argument("--json", type=Path, default=DATA / "compare.json")
    options = parser.parse_args()
    print(f"{'noise':<22} {'trials':>6} {'apart':>5} {'pairs':>6} {'covered':>8} {'false':>6} {'same?':>6} {'found':>6}"
          f"   {'Welch':>6} {'5 %':>6}  false alarms of others")  # fmt: skip
    rows = []
    for row in (*simulated(options.draws), *replayed(recorded())):
        rows.append(row)
        print(
            f"{row['noise']:<22} {row['trials']:>6} {row['apart']:>5g} {row['pairs']:>6} {row['covered']:>8.1%} "
            f"{row['false']:>6.1%} {row['same5']:>6.1%} {row['found30']:>6.1%}   {row['welch']:>6.1%} "
            f"{row['threshold']:>6.1%}", flush=True,
        )  # fmt: skip
    near = [row["covered"] for row in rows if row["apart"] == 0.0 and not row["noise"].startswith("recorded")]
    print(f"runs in succession: coverage {min(near):.1%} to {max(near):.1%}, mean {statistics.fmean(near):.1%}")
    told = broken(rows)
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "rows": rows, "broken": told}))
    for line in told:
        print(f"NOT KEPT  {line}")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
