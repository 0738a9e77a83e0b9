"""How often `ab` is wrong, and what it finds: A/A of equal code, and slowdowns that are really there.

    aa.py --runs 200 --extra 0               equal code: every "better" or "worse" is a false alarm
    aa.py --runs 100 --extra 3               3 % more work in B (benchmarks/stacks.py): what share is found, how soon
    aa.py --core 0 … and aa.py --core 1 …    two at once, a core each: each disturbs the other
    aa.py --all-cores --workload … --extra … --within 60
                                             both sides on all cores, their threads pinned; into ab_all_cores.json
    aa.py [--all-cores] --summary [--json]   read the campaign of benchmarks/data/aa.json (ab_all_cores.json)

Runs are appended to the data file, one line of its list a run, so that a campaign may be cut off and go on. On the
same samples stand beside each other: a t-interval over steps, Mann-Whitney over steps, thresholds of 5 and 7 %,
pyperf's rule (Student's t over all values pooled) and asv's (Mann-Whitney, p < 0.002, and 5 % apart).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import NormalDist, fmean, median, stdev
from typing import Any

import msgspec

from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.procedure import HEAPS, Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.student import two_sided
from torchstone.execution import plan
from torchstone.workflows.ab.experiment import ExperimentResult, compare_live
from torchstone.workflows.ab.pair import Pair, Variant

DATA = Path(__file__).parent / "data" / "aa.json"
ALL_CORES_DATA = DATA.with_name("ab_all_cores.json")
STACKS = Path(__file__).parent / "stacks.py"
# name → task, kind of stack, its size, threads
WORKLOADS: dict[str, tuple[str, str, dict[str, int], int]] = {
    "mlp train": ("train", "mlp", {"width": 128, "rows": 32}, 1),
    "conv infer": ("infer", "conv", {"channels": 16, "side": 16}, 1),
    "attention infer": ("infer", "attention", {"width": 48, "length": 32}, 1),
    "mlp train, 2 threads": ("train", "mlp", {"width": 192, "rows": 64}, 2),
}
SLOW = {
    "mlp train, 150 ms": ("train", "mlp", {"width": 800, "rows": 256}, 1),  # 256 MB of weights
    "conv infer, 150 ms": ("infer", "conv", {"channels": 16, "side": 136}, 1),
}
# name → task, kind of stack, its size, layers of A (a slowdown is whole layers more), further axes
ALL_CORES: dict[str, tuple[str, str, dict[str, int], int, dict[str, Any]]] = {
    "mlp train, 5 ms": ("train", "mlp", {"width": 64, "rows": 16}, 33, {}),
    "mlp train, 15 ms": ("train", "mlp", {"width": 64, "rows": 16}, 100, {}),
    "transformer train, 28 ms": ("train", "transformer", {"width": 96, "length": 32}, 14, {}),
    "transformer train, 60 ms": ("train", "transformer", {"width": 96, "length": 32}, 33, {}),
    "conv train, loader": (
        "train", "conv", {"channels": 16, "side": 16}, 100, {"feed": ["loader"], "num_workers": [2]},
    ),
    "mlp train, 130 ms": ("train", "mlp", {"width": 384, "rows": 192}, 100, {"batch_size": [192]}),
    "conv train, 1,800 ms": ("train", "conv", {"channels": 32, "side": 168}, 100, {}),
}  # fmt: skip
_RULES = ("t over steps", "Mann-Whitney over steps", "5 % threshold", "7 % threshold", "pyperf", "asv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--extra", type=int, default=0, help="layers more than 100 in B: percent more work")
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--budget", "--within", type=float, default=60.0, help="seconds")
    parser.add_argument("--workload", action="append", choices=sorted({**WORKLOADS, **SLOW, **ALL_CORES}))
    parser.add_argument("--all-cores", action="store_true", help="the workloads of both sides on all cores")
    parser.add_argument("--no-pin-threads", action="store_true", help="with --all-cores: threads wander, for contrast")
    parser.add_argument("--disturbed", action="store_true", help="beside a process that is busy now and then")
    parser.add_argument("--core", type=int, help="of this core alone, while another such campaign has the other")
    parser.add_argument("--heap", choices=HEAPS, default="huge")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.out = options.out or (ALL_CORES_DATA if options.all_cores else DATA)
    strange = [name for name in options.workload or () if (name in ALL_CORES) != options.all_cores]
    if strange:
        parser.error(f"--workload {strange[0]!r} {'needs' if strange[0] in ALL_CORES else 'is without'} --all-cores")
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    if not options.summary:
        names = options.workload or list(ALL_CORES if options.all_cores else WORKLOADS)
        for number in range(options.runs):
            name = names[number % len(names)]
            with neighbour(options.seed + number) if options.disturbed else calm():
                row = one_run(name, options, options.seed + number)
            append(options.out, row)
            print(
                json.dumps({k: v for k, v in row.items() if k not in ("pair_values", "medians_s")}),
                file=sys.stderr,
                flush=True,
            )
    told = summary(json.loads(options.out.read_text(encoding="utf-8")))
    print(json.dumps(told) if options.json else table(told))


def one_run(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Do one comparison and return its row."""
    rules = Rules(options.margin, 0.01, options.budget, seed)
    layers = ALL_CORES[name][3] if name in ALL_CORES else 100
    more, rest = divmod(layers * options.extra, 100)
    if rest > 50 or (options.extra and not more):
        more += 1  # the nearest whole layer: what it is in percent is in the row
    a, b = (Variant(side, case_of(name, number)) for side, number in (("A", layers), ("B", layers + more)))
    began, began_s = time.time(), time.perf_counter()
    pin = options.all_cores and not options.no_pin_threads
    how = Procedure(seed=seed, heap=options.heap, pin_threads=pin or None)
    ended = compare_live(a, b, rules, how, strict=options.all_cores, try_one_thread=options.all_cores)
    wall_s = time.perf_counter() - began_s
    ratio = ended.comparison.ratio
    return {
        "workload": name, "extra_percent": options.extra, "really_percent": round(100.0 * more / layers, 3),
        "margin": options.margin, "budget_s": options.budget, "beside": beside(options), "heap": options.heap,
        "seed": seed, "began": round(began), "verdict": str(ended.comparison.verdict),
        "ratio": [round(v, 6) for v in (ratio.value, ratio.low or 0.0, ratio.high or 0.0)] if ratio else None,
        **course_of(ended, wall_s, options), "elapsed_s": round(ended.elapsed_s, 2), "pairs_taken": ended.pairs,
        "templates": ended.templates,
        "step_s": round(median([v for t in ended.trials for v in t.values("step_time_s")] or [0.0]), 6),
        "pair_values": pair_values(ended.trials),
        "others": {rule: said(rule, ended.trials) for rule in _RULES},
        "medians_s": [round(median(t.values("step_time_s")), 7) for t in ended.trials if t.values("step_time_s")],
    }  # fmt: skip


def course_of(ended: ExperimentResult, wall_s: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return where the time of a comparison went, whether it kept it, and how narrow its interval is at the end."""
    ratio, spent = ended.comparison.ratio, ended.spent
    ends = (ratio.low, ratio.high) if ratio is not None else (None, None)
    pinned = [int(str(t.facts.threads_pinned)) for t in ended.trials if t.facts.threads_pinned is not None]
    return {
        "stopped_because": ended.stopped_because, "wall_s": round(wall_s, 2),
        "overrun": round(wall_s / options.budget - 1.0, 4),
        "measured_share": round(spent.measured_s / wall_s, 4) if spent is not None else None,
        "half_width": round(math.log(ends[1] / ends[0]) / 2.0, 6) if ends[0] and ends[1] else None,
        "needed_s": ended.needed_s, "threads_pinned": min(pinned, default=None),
        "spent_s": {k: round(v, 2) for k, v in msgspec.structs.asdict(spent).items()} if spent is not None else None,
        "couples": [len(t.values("turn_time_s")) for t in ended.trials[::2]], "noise": noise_of(ended.trials),
        "other_threads": msgspec.structs.asdict(other) if (other := ended.comparison.with_other_threads) else None,
    }  # fmt: skip


def pair_values(trials: Sequence[Trial]) -> list[tuple[float, float, int]]:
    """Return the logarithm of the ratio, its error and the template of each pair: what an interval is made of."""
    found = []
    for a, b in zip(trials[::2], trials[1::2], strict=True):
        turns = zip(a.values("turn_time_s"), b.values("turn_time_s"), strict=False)
        known = Pair(tuple(math.log(y / x) for x, y in turns), (a, b)).location
        if known is not None:
            found.append((round(known.value, 6), round(known.error, 6), int(str(a.facts.template))))
    return found


def noise_of(trials: Sequence[Trial]) -> float | None:
    """Return by how much neighbouring turns of the two sides differ, which says how quiet the machine was.

    The standard deviation of the logarithm of their ratio within a pair; the median over pairs.
    """
    turns = [[t.values("turn_time_s") for t in pair] for pair in zip(trials[::2], trials[1::2], strict=True)]
    found = [stdev(math.log(b / a) for a, b in zip(*both, strict=False)) for both in turns if min(map(len, both)) > 3]
    return round(median(found), 5) if found else None


def beside(options: argparse.Namespace) -> str:
    """Return what else runs on the machine, as far as we know."""
    if options.disturbed:
        return "a busy process"
    return "nothing" if options.core is None else "another comparison"


def case_of(name: str, layers: int, more: Mapping[str, Any] | None = None) -> Case:
    """Return a workload with so many layers; `more`: further arguments of its stack."""
    if name in ALL_CORES:
        task, kind, size, _, axes = ALL_CORES[name]
    else:
        task, kind, size, threads = {**WORKLOADS, **SLOW}[name]
        axes = {"threads": [threads], **({"mode": ["throughput"]} if task == "infer" else {})}
    options = {"layers": layers, **size, **(more or {})}
    sketch = plan.sketch(WorkloadRequest(task, f"py:{STACKS}:{kind}", options=options, axes=axes))
    return Case(sketch.workload, sketch.configurations[0], Placement("cpu"))


# ── what others would have said of the same samples ─────────────────────────────────────────────────────────


def said(rule: str, trials: Sequence[Trial]) -> bool:
    """Return whether a rule calls the two sides different."""
    a, b = ([v for t in trials if t.facts.side == side for v in t.values("step_time_s")] for side in "AB")
    if min(len(a), len(b)) < 3:
        return False
    apart = median(b) / median(a) - 1.0
    if rule.endswith("threshold"):
        return abs(apart) >= float(rule.partition(" ")[0]) / 100.0
    if rule == "t over steps":
        return abs(fmean(a) - fmean(b)) > half(a) + half(b)
    if rule == "pyperf":  # is_significant: Student's t of all values, whatever process they are from, at 95 %
        pooled = math.sqrt(((len(a) - 1) * stdev(a) ** 2 + (len(b) - 1) * stdev(b) ** 2) / (len(a) + len(b) - 2))
        t = abs(fmean(a) - fmean(b)) / (pooled * math.sqrt(1 / len(a) + 1 / len(b)))
        return t > two_sided(0.95, len(a) + len(b) - 2)
    p = mann_whitney(a, b)
    return p < 0.05 if rule.startswith("Mann") else p < 0.002 and abs(apart) > 0.05


def half(values: Sequence[float]) -> float:
    """Return half the 95 % t-interval of a mean, as if its values were independent."""
    return two_sided(0.95, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of the rank test, by its normal approximation (Mann & Whitney 1947)."""
    ranked = sorted([(v, 0) for v in a] + [(v, 1) for v in b])
    rank_sum = sum(rank for rank, (_, side) in enumerate(ranked, 1) if side == 0)
    n, m = len(a), len(b)
    z = (rank_sum - n * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return 2.0 * NormalDist().cdf(-abs(z))


# ── the neighbour ───────────────────────────────────────────────────────────────────────────────────────────

_BUSY = """
import random, sys, time
dice = random.Random(int(sys.argv[1]))
while True:
    until = time.monotonic() + dice.uniform(0.2, 3.0)
    while time.monotonic() < until:
        pass
    time.sleep(dice.uniform(0.5, 6.0))
"""


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Keep a process beside that uses a whole core, now and then, a third of the time."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY, str(seed)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def calm() -> Iterator[None]:
    """Disturb nothing."""
    yield


# ── reading a campaign ──────────────────────────────────────────────────────────────────────────────────────


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the list in a file."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    path.write_text("[\n" + ",\n".join(json.dumps(r) for r in [*rows, row]) + "\n]\n", encoding="utf-8")


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each slowdown put in, and below it one for each kind of run of it.

    Workloads on all cores have lines of their own.
    """
    whole: dict[tuple[str, int, bool], dict[tuple[float, float, str, str], list[dict[str, Any]]]] = {}
    for row in rows:
        kind = (row["margin"], row["budget_s"], row["heap"], row["beside"])
        name = row["workload"] if row["workload"] in ALL_CORES else ""
        whole.setdefault((name, row["extra_percent"], row["step_s"] > 0.06 and not name), {}).setdefault(
            kind, []
        ).append(row)
    lines = []
    for (name, extra, slow), kinds in sorted(whole.items()):
        shared = {"workload": name, "extra_percent": extra, "slow_steps": slow}
        if len(kinds) > 1:
            lines.append({**shared, **counted(extra, [row for of in kinds.values() for row in of])})
        for (margin, budget_s, heap, where), of in sorted(kinds.items()):
            kind_s = {"margin": margin, "budget_s": budget_s, "heap": heap, "beside": where}
            lines.append({**shared, **kind_s, **counted(extra, of)})
    return lines


def counted(extra: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what `ab` said, how often and how soon, and what the other rules said."""
    found = sum(r["verdict"] in ("worse", "better") for r in rows)
    right = sum(r["verdict"] == "worse" for r in rows) if extra else found
    with_interval = [r for r in rows if r["ratio"]]
    return {
        "runs": len(rows), "called_different": found, "share": right / len(rows),
        "limits_95": [lower(right, len(rows)), upper(right, len(rows))],
        "same": sum(r["verdict"] == "same" for r in rows), "unclear": sum(r["verdict"] == "unclear" for r in rows),
        "median_s": median(r["elapsed_s"] for r in rows), "longest_s": max(r["elapsed_s"] for r in rows),
        "covered": sum(covers(r) for r in with_interval) / len(with_interval) if with_interval else None,
        **{name: middle(rows, name) for name in ("measured_share", "overrun", "half_width", "noise", "step_s")},
        "others": {rule: sum(r["others"][rule] for r in rows) / len(rows) for rule in _RULES},
    }  # fmt: skip


def middle(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """Return the median of what the rows have of it; of an overrun the largest."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return None if not values else max(values) if name == "overrun" else median(values)


def covers(row: dict[str, Any]) -> bool:
    """Return whether the interval holds the work put in; a part of a step is not layers, so B owes a bit less."""
    _, low, high = row["ratio"]
    extra = row.get("really_percent", row["extra_percent"]) / 100.0
    return bool(low <= 1.0 + extra and high >= 1.0 + 0.9 * extra)


def upper(found: int, runs: int) -> float:
    """Return the upper 95 % limit of a rate, one-sided (Clopper & Pearson 1934), by bisection of the binomial."""
    low, high = found / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        tail = sum(math.comb(runs, k) * middle**k * (1 - middle) ** (runs - k) for k in range(found + 1))
        low, high = (middle, high) if tail > 0.05 else (low, middle)
    return high


def lower(found: int, runs: int) -> float:
    """Return the lower 95 % limit of a rate, one-sided."""
    return 1.0 - upper(runs - found, runs)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Return the lines as text; what the other rules said stands below each slowdown."""
    out = []
    for line in lines:
        what = "equal code" if line["extra_percent"] == 0 else f"{line['extra_percent']} % slower"
        what += " (slow steps)" if line["slow_steps"] else f", {line['workload']}" if line["workload"] else ""
        if "margin" in line:
            what += f", margin {line['margin']:.1%}, {line['budget_s']:.0f} s, {line['heap']} heap"
            what += f", beside {line['beside']}"
        low, high = line["limits_95"]
        shown = {"measured_share": "measured", "overrun": "overrun at most", "half_width": "±", "noise": "noise"}
        course = "".join(f"; {word} {line[n]:.1%}" for n, word in shown.items() if line[n] is not None)
        covered = "none" if line["covered"] is None else f"{line['covered']:.0%}"
        out.append(
            f"{what}: {line['runs']} runs, called different {line['called_different']} ({line['share']:.1%}, "
            f"limits {low:.1%} and {high:.1%}), same {line['same']}, unclear {line['unclear']}; "
            f"{line['median_s']:.0f} s in the median, {line['longest_s']:.0f} at most; interval right {covered}"
            f"{course}\n"
            f"    on the same samples: {', '.join(f'{rule} {share:.0%}' for rule, share in line['others'].items())}"
        )
    return "\n".join(out)


if __name__ == "__main__":
    random.seed(0)
    main()
