"""What `ab` prints: the answer in one line, the two sides beside each other, and what to mind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from torchstone import units
from torchstone.cli._ab_progress import change
from torchstone.cli._table import Column, plain, show
from torchstone.figures import figures
from torchstone.terms.comparison import Comparison, Judgement
from torchstone.terms.metric import FIGURES
from torchstone.terms.trial import Status, Trial

if TYPE_CHECKING:
    from torchstone.ab.contest import Contested
    from torchstone.runner.results import Results

_ROWS = {
    "step_time": "step time", "latency_per_batch_p50_s": "latency p50", "throughput": "throughput",
    "peak_rss_bytes": "peak memory", "peak_reserved_bytes": "device memory", "loss_last": "last loss",
}  # fmt: skip
_TOLERANCE = 1e-3  # of fingerprints, as in checks/fingerprint_moved


def print_ab(results: Results, ended: Contested) -> None:
    """Print the answer of a live comparison."""
    found = ended.comparison
    print(plain(headline(found)))
    if found.ratio is not None:
        print(plain(_how_sure(found, ended)))
    print()
    _table(found, ended.trials)
    for line in _to_mind(found, ended):
        print(plain(line))
    print(f"\nrecord    {results.summary.record}\ndocument  {results.document}")


def headline(found: Comparison) -> str:
    """Return the answer in one line."""
    a, b, ratio = found.baseline.label, found.candidate.label, found.ratio
    if found.verdict == Judgement.NOT_COMPARABLE:
        return f"not comparable: {found.why}"
    if ratio is None:
        return f"unclear: too few pairs of {b} and {a} in the time given"
    faster = {Judgement.BETTER: f"{b} is faster than {a}", Judgement.WORSE: f"{b} is slower than {a}"}
    if found.verdict in faster:
        return f"{found.verdict}: {faster[found.verdict]}: it takes {change(ratio.value)} time"
    if found.verdict == Judgement.SAME:
        return f"same: {b} takes as long as {a}, within {units.quantity(found.margin, 'ratio')}"
    return f"unclear: whether {b} is faster or slower than {a} cannot be told yet"


def _how_sure(found: Comparison, ended: Contested) -> str:
    ratio = found.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    counts = f"{ended.pairs} pairs of processes, {ended.templates} templates, {ended.elapsed_s:.0f} s"
    interval = f"[{change(ratio.low)}, {change(ratio.high)}]"
    return f"{change(ratio.value)} {interval}, at most {1.0 - ratio.level:.1%} false alarms; {counts}"


def _table(found: Comparison, trials: Sequence[Trial]) -> None:
    sides = [[t for t in trials if t.facts.get("side") == side and t.outcome.status == Status.OK] for side in "AB"]
    told = [[figures(trial).values for trial in side] for side in sides]
    larger = _larger(trials)
    rows: list[tuple[str, str, str, str]] = []
    for name, title in _ROWS.items():
        a, b = (_median(name, side) for side in told)
        if a is not None and b is not None:
            unit = FIGURES[name].unit
            rows.append((title, units.quantity(a, unit), units.quantity(b, unit), _against(name, a, b, found, larger)))
    if rows:
        titles, a_cells, b_cells, ratios = zip(*rows, strict=True)
        labels = plain(f"A: {found.baseline.label}"), plain(f"B: {found.candidate.label}")
        show([Column("median of processes", titles, left=True), Column(labels[0], a_cells), Column(labels[1], b_cells),
              Column("B against A", ratios)])  # fmt: skip


def _against(name: str, a: float, b: float, found: Comparison, larger: float) -> str:
    """Return B against A: of times and rates by the pairs, as medians of processes have drift in them.

    The pairs' ratio is that of an item's time; a step of B has `larger` times the items.
    """
    if name in ("step_time", "throughput"):
        paired = found.ratio.value if found.ratio is not None else None
        return change(paired * larger if name == "step_time" else 1.0 / paired) if paired else ""
    return change(b / a) if name.startswith("peak_") and a > 0.0 else ""


def _larger(trials: Sequence[Trial]) -> float:
    """Return how many times the items of A a step of B has; 1 where that is not known."""
    items = [[v for t in trials if t.facts.get("side") == side for v in t.values("items")] for side in "AB"]
    a, b = (median(each) if each else 0.0 for each in items)
    return b / a if a > 0.0 and b > 0.0 else 1.0


def _median(name: str, told: Sequence[Mapping[str, float]]) -> float | None:
    values = [values[name] for values in told if name in values]
    return median(values) if values else None


def _to_mind(found: Comparison, ended: Contested) -> Iterator[str]:
    """Yield what else there is to say: other results, what failed, what would settle it."""
    if (larger := _larger(ended.trials)) != 1.0:
        yield f"a step of B has {larger:.3g} times the items of one of A: compared is the time of an item"
    if (moved := _fingerprints(ended.trials)) is not None:
        a, b = (units.significant(value, 6) for value in moved)
        yield f"the sides compute different results: first {a} and {b}"
    failed = sum(t.outcome.status not in (Status.OK, Status.SKIPPED) for t in ended.trials)
    if failed and found.verdict != Judgement.NOT_COMPARABLE:
        yield f"{failed} of {len(ended.trials)} processes failed; their pairs are left out"
    if found.verdict == Judgement.UNCLEAR and found.trials_to_settle:
        per_pair_s = ended.elapsed_s / max(ended.pairs, 1)
        needed_s = ended.elapsed_s + found.trials_to_settle * per_pair_s
        minutes = max(1, math.ceil(needed_s / 60))
        yield f"about {found.trials_to_settle} more pairs would settle it: --within {minutes}m"


def _fingerprints(trials: Sequence[Trial]) -> tuple[float, float] | None:
    prints = [next((t.values("fingerprint") for t in trials if t.facts.get("side") == side), ()) for side in "AB"]
    pairs = list(zip(*prints, strict=False))
    scale = max((abs(v) for pair in pairs for v in pair if math.isfinite(v)), default=0.0)
    return next(((a, b) for a, b in pairs if _apart(a, b, scale)), None)


def _apart(a: float, b: float, scale: float) -> bool:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) > _TOLERANCE * scale
    return not (a == b or (math.isnan(a) and math.isnan(b)))  # the one is a number, and the other none
