"""What `ab` prints, and `show` of its record: the answer, the two sides beside each other, and what to mind."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from torchstone.analysis.advice.fed import fed_words
from torchstone.cli._ab_answer import headline, how, settling
from torchstone.cli._ab_course import Course, course_told
from torchstone.cli._ab_progress import change, is_narrow
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units
from torchstone.core.figures import figures
from torchstone.core.fingerprints import Entries, fingerprint_of, moved
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import portable
from torchstone.core.schema.comparison import Comparison, Judgement
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.trial import Status, Trial

if TYPE_CHECKING:
    from torchstone.analysis.summary import CaseSummary
    from torchstone.workflows.ab.experiment import Contested
    from torchstone.workflows.run.results import Results

_ROWS = {
    "step_time": "step time", "latency_per_batch_p50_s": "latency p50", "throughput": "throughput",
    "peak_rss_bytes": "peak memory", "peak_reserved_bytes": "device memory", "loss_last": "last loss",
}  # fmt: skip


def print_ab(results: Results, ended: Contested) -> None:
    """Print the answer of a live comparison that has just ended, and where its files are."""
    print_contest(ended.comparison, ended.trials, results.summary.cases, course_told(ended))
    print(f"\nrecord    {results.summary.record}\ndocument  {results.document}")


def print_contest(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary], course: Course) -> None:
    """Print the answer of a live comparison. `cases`: those of its two sides."""
    width = terminal_width()
    for line in (headline(found), settling(found, course)):
        if line is not None:
            print(textwrap.fill(plain(line), width))
    if (measured := how(found, course)) is not None:
        print(textwrap.fill(plain(measured), width, subsequent_indent="    "))
    for line in fed_words(cases):
        print(textwrap.fill(plain(line), width))
    _table(found, trials)
    for line in _to_mind(found, trials, cases):
        print(textwrap.fill(plain(line), width, subsequent_indent="    "))


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
        print()
        titles, a_cells, b_cells, ratios = zip(*rows, strict=True)
        labels = plain(f"A: {found.baseline.label}"), plain(f"B: {found.candidate.label}")
        show([Column("median of processes", titles, left=True), Column(labels[0], a_cells), Column(labels[1], b_cells),
              Column("B against A", ratios)])  # fmt: skip


def _against(name: str, a: float, b: float, found: Comparison, larger: float) -> str:
    """Return B against A: of times and rates by the pairs, as medians of processes have drift in them.

    The pairs' ratio is that of an item's time; a step of B has `larger` times the items.
    """
    if name in ("step_time", "throughput"):
        ratio = found.ratio
        known = ratio is not None and is_narrow(ratio.low or 0.0, ratio.high or 0.0)
        paired = ratio.value if ratio is not None and known else None
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


def _to_mind(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield what else there is to say: other results, what failed."""
    if (larger := _larger(trials)) != 1.0:
        yield f"a step of B has {larger:.3g} times the items of one of A: compared is the time of an item"
    if (differing := _fingerprints(trials)) is not None:
        a, b = (units.significant(value, 6) for value in (differing.one, differing.other))
        causes = ", ".join(_changing(found, cases)) if math.isfinite(differing.difference) else ""
        expected = f", as is expected of {causes}: see that quality holds" if causes else ""
        yield f"the sides compute different results: first {a} and {b}{expected}"
    failed = sum(t.outcome.status not in (Status.OK, Status.SKIPPED) for t in trials)
    if failed and found.verdict != Judgement.NOT_COMPARABLE:
        yield f"{failed} of {len(trials)} processes failed; their pairs are left out"


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


def _fingerprints(trials: Sequence[Trial]) -> Entries | None:
    return moved(*(fingerprint_of(t for t in trials if t.facts.get("side") == side) for side in "AB"))
