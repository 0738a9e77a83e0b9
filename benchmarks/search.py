"""How near to the best each searcher comes, at what share of the cost of everything, and how often out of memory.

Surfaces of 14 batch sizes × 6 worker counts × 2 precisions × 2 values of pin_memory, 336 settings: nine modelled kinds,
drawn from the seed (surfaces/model.py, kinds.py), and recorded ones (surfaces/recorded.py), their noise from the seed.
`share_of_best`: the true items/s of the point that a search puts first ÷ those of the best point of all that run.
`share_of_cost`: trial-seconds spent ÷ those of a full trial of every setting. The others get what adaptive spent:
random; Optuna's TPE and GP samplers, with full trials and with the short ones that adaptive takes; and doubling, which
is what Lightning's batch size finder does: double the batch until it fails, take the last that worked.

    python benchmarks/search.py [--seed 1] [--json]       one seed: a table, or one JSON document
    python benchmarks/search.py --seeds 1-6 [--jobs 2]    a campaign: its figures go to data/search.json
    python benchmarks/search.py --seeds 1-100 --recorded  the recordings alone, with the noise of their own hour
    python benchmarks/search.py --seeds 1-100 --told      what noise and cost allow: told the best settings beforehand
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from surfaces.kinds import modelled
from surfaces.recorded import recorded
from surfaces.surface import POINTS, PRESENT, Surface

from torchstone.core.schema.search import Point, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins import registry
from torchstone.plugins.searchers._plain import Optuna

DATA = Path(__file__).parent / "data" / "search.json"
SEARCHERS = ("adaptive", "random", "tpe", "gp", "tpe short", "gp short", "doubling")
RECORDINGS = ("cnn", "gesture", "mlp")
MEAN = (0.99, 0.05)  # asked of a seed's mean: share of the best, at most at this share of the cost
WORST = (0.97, 0.10)
QUICK = 0.1  # effort of a trial of the doubling: a few steps
SHORT = 0.3  # effort of the trials that the adaptive searcher takes of whole steps
NEAR = 0.93  # of the best: what is told


class Found(NamedTuple):
    """How one search ended."""

    share_of_best: float
    share_of_cost: float
    ooms: int
    probes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help="a range of seeds, such as 1-6: a campaign of all searchers")
    parser.add_argument("--jobs", type=int, default=1, help="seeds of a campaign that are searched at a time")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--recorded", action="store_true", help="the recordings alone, with their own noise")
    parser.add_argument("--told", action="store_true", help="of searchers that know the best settings beforehand")
    options = parser.parse_args()
    if options.told:
        return as_told(seeds_of(options.seeds or str(options.seed)))
    if options.recorded:
        return as_recorded(seeds_of(options.seeds or str(options.seed)))
    if options.seeds is not None:
        return campaign(seeds_of(options.seeds), options.jobs)
    found = of_seed(options.seed, SEARCHERS)
    if options.json:
        surfaces = [{"name": name, **{s: f._asdict() for s, f in searches.items()}} for name, searches in found.items()]
        print(json.dumps({"surfaces": surfaces}))
    else:
        show(found)
    return 0


def seeds_of(text: str) -> range:
    """Read a range of seeds."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def as_recorded(seeds: Sequence[int]) -> int:
    """Search the recordings with their own noise, and print how that comes out."""
    rows = [
        {"seed": seed, "surface": surface.name, **of_surface(surface, seed, ["adaptive"])["adaptive"]._asdict()}
        for surface in recorded(as_recorded=True) for seed in seeds
    ]  # fmt: skip
    found = {name: _of_surface(rows, name) for name in dict.fromkeys(row["surface"] for row in rows)}
    print(json.dumps(found, indent=2))
    return 0


def as_told(seeds: Sequence[int]) -> int:
    """Print how well the near-best settings can be told apart by who knows them, and spends a tenth on nothing else."""
    for surface in (*modelled(seeds[0]), *recorded()):
        near = near_best(surface)
        found = [told(surface, near, seed) for seed in seeds]
        once = sum(surface.trials(0)(Probe(point, effort=SHORT)).cost_s for point in near) / surface.everything_s
        print(
            f"{surface.name:16} {len(near):2} within {100 * (1 - NEAR):.0f} % of the best; a short trial of each costs"
            f"{100 * once:5.1f} %; for {100 * WORST[1]:.0f} %: {100 * statistics.mean(found):5.1f} % of the best, "
            f">= {WORST[0]:.0%} in {_share(f >= WORST[0] for f in found):.0%}"
        )
    return 0


def near_best(surface: Surface) -> list[Point]:
    """Return the settings near the best, one of those that are equally good."""
    worth = {_share_of(surface, point): point for point in POINTS}
    return [point for share, point in sorted(worth.items(), key=itemgetter(0)) if share >= NEAR]


def told(surface: Surface, near: Sequence[Point], seed: int) -> float:
    """Return the share of the best that comes of reading these settings in turn for a tenth of what everything costs.

    Each round begins with another of them. The answer is the one of the highest mean.
    """
    take, order = surface.trials(seed), random.Random(seed).sample(near, len(near))
    heard: dict[int, list[float]] = {}
    left_s, asleep = WORST[1] * surface.everything_s, 0
    for number in itertools.cycle(range(len(order))):
        reading = take(Probe(order[number], effort=SHORT))
        if asleep >= len(order):
            break
        if reading.cost_s > left_s or reading.value is None:
            asleep += 1
            continue
        left_s, asleep = left_s - reading.cost_s, 0
        heard.setdefault(number, []).append(math.log(reading.value))
    best = max(heard, key=lambda number: statistics.mean(heard[number]))
    return _share_of(surface, order[best])


def _share_of(surface: Surface, point: Point) -> float:
    return (surface.truth(point) or 0.0) / surface.best


def of_seed(seed: int, searchers: Sequence[str]) -> dict[str, dict[str, Found]]:
    """Search every surface of a seed with each searcher."""
    return {surface.name: of_surface(surface, seed, searchers) for surface in (*modelled(seed), *recorded())}


def of_surface(surface: Surface, seed: int, searchers: Sequence[str]) -> dict[str, Found]:
    """Search one surface with each searcher; the budget is what the first of them spent."""
    found: dict[str, Found] = {}
    for searcher in searchers:
        budget_s = next((f.share_of_cost * surface.everything_s for f in found.values()), None)
        brief = surface.brief(seed, budget_s)
        found[searcher] = searched(surface, started(searcher, brief), seed)
    return found


def started(searcher: str, brief: SearchProblem) -> Generator[Probe, ProbeResult, Sequence[Point]]:
    """Start a search by the name in SEARCHERS."""
    name, _, short = searcher.partition(" ")
    samplers = {"tpe": Optuna(), "gp": Optuna("GPSampler", n_startup_trials=5)}
    if name == "doubling":
        return doubling(brief)
    asking = (samplers[name] if name in samplers else registry.load("searchers", name)).search(brief)
    return shortened(asking) if short else asking


def shortened(
    asking: Generator[Probe, ProbeResult, Sequence[Point]],
) -> Generator[Probe, ProbeResult, Sequence[Point]]:
    """Carry out a search with short trials."""
    try:
        probe = next(asking)
        while True:
            probe = asking.send((yield msgspec.structs.replace(probe, effort=SHORT)))
    except StopIteration as end:
        return end.value


def searched(surface: Surface, asking: Generator[Probe, ProbeResult, Sequence[Point]], seed: int) -> Found:
    """Carry out one search."""
    take = surface.trials(seed)
    spent_s, ooms, probes = 0.0, 0, 0
    try:
        probe = next(asking)
        while True:
            reading = take(probe)
            spent_s, ooms, probes = (
                spent_s + reading.cost_s,
                ooms + (reading.status == Status.OUT_OF_MEMORY),
                probes + 1,
            )
            probe = asking.send(reading)
    except StopIteration as end:
        chosen = (surface.truth(end.value[0]) if end.value else None) or 0.0
    return Found(chosen / surface.best, spent_s / surface.everything_s, ooms, probes)


def doubling(brief: SearchProblem) -> Generator[Probe, ProbeResult, Sequence[Point]]:
    """Double the batch until it fails (lightning.pytorch.tuner.batch_size_scaling, mode power, from 2)."""
    worked: Point | None = None
    for batch in sorted(int(value) for value in brief.axes["batch_size"] if isinstance(value, int) and value >= 2):
        point = {**PRESENT, "batch_size": batch}
        reading = yield Probe(point, effort=QUICK)
        if reading.status is not Status.OK:
            break
        worked = point
    return [] if worked is None else [worked]


def show(found: Mapping[str, Mapping[str, Found]]) -> None:
    """Print a table of one seed."""
    print(f"{'best, cost':16}" + "".join(f"{s:>16}       " for s in SEARCHERS))
    for name, searches in found.items():
        print(f"{name:16}" + "".join(_cell(searches[s]) for s in SEARCHERS))
    for label, best, cost in (("mean", statistics.mean, statistics.mean), ("worst", min, max)):
        cells = []
        for searcher in SEARCHERS:
            column = [searches[searcher] for searches in found.values()]
            ooms = sum(f.ooms for f in column) if label == "mean" else max(f.ooms for f in column)
            cells.append(
                Found(best([f.share_of_best for f in column]), cost([f.share_of_cost for f in column]), ooms, 0)
            )
        print(f"{label:16}" + "".join(map(_cell, cells)))


def _cell(found: Found) -> str:
    ooms = f"{found.ooms} OOM" if found.ooms else ""
    return f"{100 * found.share_of_best:8.1f} %{100 * found.share_of_cost:4.1f} %{ooms:>7}"


def campaign(seeds: Sequence[int], jobs: int) -> int:
    """Search with each searcher over several seeds; print and keep how each comes out."""
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(jobs) as pool:
        for seed, found in zip(seeds, pool.map(partial(of_seed, searchers=SEARCHERS), seeds), strict=True):
            rows += [
                {"seed": seed, "surface": name, "searcher": searcher, **one._asdict()}
                for name, searches in found.items()
                for searcher, one in searches.items()
            ]
            print(f"seed {seed} done", file=sys.stderr, flush=True)
    summary = summed_up(rows)
    DATA.write_text(json.dumps({"summary": summary, "rows": rows}, indent=0) + "\n", encoding="utf-8")
    print(json.dumps(summary, indent=2))
    return 0


def summed_up(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of each searcher, over all surfaces, over the recordings, and by surface."""
    summary: dict[str, Any] = {}
    for searcher in dict.fromkeys(row["searcher"] for row in rows):
        own = [row for row in rows if row["searcher"] == searcher]
        recorded_ones = [row for row in own if row["surface"] in RECORDINGS]
        summary[searcher] = {
            "searches": len(own),
            "share_of_best": {"mean": _mean(own, "share_of_best"), "worst": min(row["share_of_best"] for row in own)},
            "share_of_cost": {"mean": _mean(own, "share_of_cost"), "worst": max(row["share_of_cost"] for row in own)},
            "recorded": {
                "share_of_best": _mean(recorded_ones, "share_of_best"),
                "share_of_cost": _mean(recorded_ones, "share_of_cost"),
            },
            "as_asked": {
                "in the mean": _mean(own, "share_of_best") >= MEAN[0] and _mean(own, "share_of_cost") <= MEAN[1],
                "share of the searches": _share(
                    row["share_of_best"] >= WORST[0] and row["share_of_cost"] <= WORST[1] for row in own
                ),
            },
            "ooms": sum(row["ooms"] for row in own),
            "surfaces": {name: _of_surface(own, name) for name in dict.fromkeys(row["surface"] for row in own)},
        }
    return summary


def _of_surface(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    own = [row for row in rows if row["surface"] == name]
    shares = sorted(row["share_of_best"] for row in own)
    return {
        "mean": _mean(own, "share_of_best"), "p05": shares[math.floor(0.05 * len(shares))], "worst": shares[0],
        "cost": _mean(own, "share_of_cost"),
    }  # fmt: skip


def _mean(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    return statistics.mean(row[column] for row in rows)


def _share(values: Any) -> float:
    return statistics.mean(map(float, values))


if __name__ == "__main__":
    sys.exit(main())
