"""What `ab` prints, and `show` of its record: the answer, the two sides beside each other, and what to mind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from torchstone import units
from torchstone.advice.fed import fed_words
from torchstone.cli._ab_course import Course, course_told
from torchstone.cli._ab_progress import change
from torchstone.cli._table import Column, plain, show
from torchstone.figures import figures
from torchstone.terms.axis import AXES
from torchstone.terms.case import portable
from torchstone.terms.comparison import Comparison, Judgement
from torchstone.terms.metric import FIGURES
from torchstone.terms.trial import Status, Trial

if TYPE_CHECKING:
    from torchstone.ab.contest import Contested
    from torchstone.runner.results import Results
    from torchstone.summary import CaseSummary

_ROWS = {
    "step_time": "step time", "latency_per_batch_p50_s": "latency p50", "throughput": "throughput",
    "peak_rss_bytes": "peak memory", "peak_reserved_bytes": "device memory", "loss_last": "last loss",
}  # fmt: skip
_TOLERANCE = 1e-3  # of fingerprints, as in checks/fingerprint_moved
_MOST_S = 1e6  # a longer contest is no advice


def print_ab(results: Results, ended: Contested) -> None:
    """Print the answer of a live comparison that has just ended, and where its files are."""
    print_contest(ended.comparison, ended.trials, results.summary.cases, course_told(ended))
    print(f"\nrecord    {results.summary.record}\ndocument  {results.document}")


def print_contest(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary], course: Course) -> None:
    """Print the answer of a live comparison. `cases`: those of its two sides."""
    print(plain(headline(found)))
    if found.ratio is not None:
        print(plain(_how_sure(found, course)))
    print()
    for line in fed_words(cases):
        print(plain(line))
    _table(found, trials)
    for line in _to_mind(found, trials, cases, course):
        print(plain(line))


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


def _how_sure(found: Comparison, course: Course) -> str:
    ratio = found.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    counts = f"{course.pairs} pairs of processes, {course.templates} templates"
    took = f", {course.elapsed_s:.0f} s" if course.elapsed_s is not None else ""
    interval = f"[{change(ratio.low)}, {change(ratio.high)}]"
    return f"{change(ratio.value)} {interval}, at most {1.0 - ratio.level:.1%} false alarms; {counts}{took}"


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


def _to_mind(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary], course: Course) -> Iterator[str]:
    """Yield what else there is to say: other results, what failed, what would settle it."""
    if (larger := _larger(trials)) != 1.0:
        yield f"a step of B has {larger:.3g} times the items of one of A: compared is the time of an item"
    if (moved := _fingerprints(trials)) is not None:
        a, b = (units.significant(value, 6) for value in moved)
        causes = ", ".join(_changing(found, cases)) if all(map(math.isfinite, moved)) else ""
        expected = f", as is expected of {causes}: see that quality holds" if causes else ""
        yield f"the sides compute different results: first {a} and {b}{expected}"
    failed = sum(t.outcome.status not in (Status.OK, Status.SKIPPED) for t in trials)
    if failed and found.verdict != Judgement.NOT_COMPARABLE:
        yield f"{failed} of {len(trials)} processes failed; their pairs are left out"
    if found.verdict == Judgement.UNCLEAR and found.ratio is not None:
        yield _settling(found, course)


def _settling(found: Comparison, course: Course) -> str:
    """Return what would settle an unclear comparison: more time, or where that would not help, a wider margin."""
    more, ratio = found.trials_to_settle, found.ratio
    if more is not None:
        needed_s = course.elapsed_s * (1.0 + more / course.pairs) if course.elapsed_s and course.pairs else math.inf
        longer = f": --within {max(1, math.ceil(needed_s / 60.0))}m" if needed_s < _MOST_S else ""
        return f"about {more} more pairs would settle it, 4 times in 5, if B takes what it now seems{longer}"
    said = "not even 1,000 more pairs would settle it"
    if ratio is None or ratio.low is None or ratio.high is None or ratio.low <= 0.0:
        return said
    most = max(ratio.high, 1.0 / ratio.low) - 1.0
    if not most < 0.99:  # a margin is a share of less than 1
        return said
    percent = math.ceil(100.0 * most)
    return f"{said}; if {percent} % does not matter to you, say so: --margin {percent}%"


def _changing(found: Comparison, cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield in what the sides differ that changes what is computed, by its nature."""
    known = {case.case_id: case for case in cases}
    a, b = (known.get(side.case_id) for side in (found.baseline, found.candidate))
    if a is None or b is None:
        return
    for name in ("task", "model", "data"):
        one, other = (portable(str(getattr(case.workload, name))) for case in (a, b))
        if one != other:
            yield f"another {name}"
    if a.placement.device != b.placement.device:
        yield "another device"
    for name, axis in AXES.items():
        values = [case.configuration.get(name, axis.default) for case in (a, b)]
        if axis.changes_result and values[0] != values[1]:
            yield f"{name} {values[0]} against {values[1]}"


def _fingerprints(trials: Sequence[Trial]) -> tuple[float, float] | None:
    prints = [next((t.values("fingerprint") for t in trials if t.facts.get("side") == side), ()) for side in "AB"]
    pairs = list(zip(*prints, strict=False))
    scale = max((abs(v) for pair in pairs for v in pair if math.isfinite(v)), default=0.0)
    return next(((a, b) for a, b in pairs if _apart(a, b, scale)), None)


def _apart(a: float, b: float, scale: float) -> bool:
    if math.isfinite(a) and math.isfinite(b):
        return abs(a - b) > _TOLERANCE * scale
    return not (a == b or (math.isnan(a) and math.isnan(b)))  # the one is a number, and the other none
