"""A live comparison as a Document: what B does to A with its interval, what would settle it, both sides beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torchstone.analysis.ci import within_words
from torchstone.analysis.compare.ab_sides import (
    BY_PAIRS,
    FigureOfSides,
    figures_of_sides,
    is_narrow,
    items_ratio,
    other_results,
    times_as_fast,
)
from torchstone.core import units
from torchstone.core.schema.answer import AbResult, Course
from torchstone.core.schema.comparison import Comparison, Judgement
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.trial import Status, Trial
from torchstone.report.charts.forest_plot import Ratio, ratios_chart
from torchstone.report.document import Column, Part, Role, Table, Text
from torchstone.report.documents.feed import fed_words

if TYPE_CHECKING:
    from torchstone.analysis.summary import CaseSummary

_TITLES = {
    "step_time_mean": "step time",
    "latency_per_batch_p50_s": "latency p50",
    "throughput": "throughput",
    "peak_rss_bytes": "peak memory",
    "peak_reserved_bytes": "device memory",
    "loss_first": "loss of the first step",
}
_MOST_S = 1e6  # a longer comparison is no advice
_POWER = "80 % power"
_BY_PAIRS = "step time and throughput: the geometric mean of both sides, divided by the ratio of the pairs"


def ab_parts(answer: AbResult, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> Iterator[Part]:
    """Yield the answer, what to mind, what would settle it, and both sides. `cases`: those of the two sides.

    `trials`: all of its record, with the facts side, pair and template.
    """
    found = answer.comparison
    doubt = next((word for word in (Verdict.INVALID, Verdict.SUSPECT) if word in {one.verdict for one in cases}), None)
    yield Text(_headline(found) + (f" {doubt}." if doubt is not None else ""), Role.HEADLINE)
    yield from (Text(line, Role.NOTE) for line in _to_mind(found, trials, cases))
    yield from (Text(line) for line in _needed(found, answer.course))
    # What is the same on both sides, as is the first loss of equal weights, says nothing.
    if rows := [one for one in figures_of_sides(found, trials) if one.ratio is not None or one.a != one.b]:
        yield _table(rows, found)
    ratio = found.ratio
    if ratio is not None and found.verdict != Judgement.NOT_COMPARABLE:
        named = f"{found.candidate.label} against {found.baseline.label}"
        row = Ratio(named, "throughput", *times_as_fast(ratio), str(found.verdict))
        yield from ratios_chart((row,), found.margin, ratio.level)


def ab_rest(answer: AbResult, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> Iterator[Part]:
    """Yield how it was measured, and what fed both sides."""
    found = answer.comparison
    yield from (Text(line) for line in (*_measured(found, answer.course), *fed_words(cases)))
    if any(row.name in BY_PAIRS and row.ratio is not None for row in figures_of_sides(found, trials)):
        yield Text(_BY_PAIRS, Role.DETAIL)


def _table(rows: Sequence[FigureOfSides], found: Comparison) -> Table:
    unit = {row.name: FIGURES[row.name].unit for row in rows}
    ratios = tuple(units.ratio(*row.ratio) if row.ratio is not None else "" for row in rows)
    return Table.of(
        Column("figure", tuple(_TITLES[row.name] for row in rows), left=True),
        Column(f"A: {found.baseline.label}", tuple(units.quantity(row.a, unit[row.name]) for row in rows)),
        Column(f"B: {found.candidate.label}", tuple(units.quantity(row.b, unit[row.name]) for row in rows)),
        Column("B ÷ A", ratios),
    )


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────


def _headline(found: Comparison) -> str:
    """Return the answer in one sentence, with its interval."""
    a, b, ratio = found.baseline.label, found.candidate.label, found.ratio
    if found.verdict == Judgement.NOT_COMPARABLE:
        return f"{b} and {a} are not comparable: {found.why_text}."
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"Unclear: {found.why_text or f'too few pairs of {b} and {a} in the time given'}."
    times, level = units.ratio(*times_as_fast(ratio)), f"{100.0 * ratio.level:g} % confidence"
    if not is_narrow(ratio.low, ratio.high):
        if found.verdict in (Judgement.BETTER, Judgement.WORSE):
            size = "its size is not known to ±50 % yet"
            return f"{b} is {times} times as fast as {a} ({level}): {found.verdict}; {size}."
        return f"Unclear: how {b} and {a} differ is not known to ±50 % yet."
    said = f"{b} is {times} times as fast as {a} ({level})"
    if found.verdict == Judgement.UNCLEAR:
        return f"Unclear: {said}."
    within = f", within ±{100.0 * found.margin:g} %" if found.verdict == Judgement.SAME else ""
    return f"{said}{within}: {found.verdict}."


# ── what would settle it, and how it was measured ───────────────────────────────────────────────────────────


def _needed(found: Comparison, course: Course) -> Iterator[str]:
    """Yield what would settle an unclear comparison: more time, other threads, or where neither would, a wider margin.

    Nothing where it is settled, or too little is known to say.
    """
    ratio, other = found.ratio, found.with_other_threads
    if found.verdict != Judgement.UNCLEAR or ratio is None:
        return
    if other is None:
        yield _more_pairs(found, ratio, course)
        return
    flags = f"--axis threads={other.threads} --within {within_words(other.within_s)}"
    pairs = _counted(other.pairs_needed, "pair")
    yield f"About {pairs} needed in all with threads={other.threads}, fewer than with these: {flags}."


def _more_pairs(found: Comparison, ratio: Estimate, course: Course) -> str:
    more = found.trials_to_settle
    if more is not None:
        needed_s = course.elapsed_s * (1.0 + more / course.pairs) if course.elapsed_s and course.pairs else math.inf
        longer = f": the same command with --within {within_words(needed_s)}" if needed_s < _MOST_S else ""
        what = _would_show(ratio, found.margin)
        return f"About {_counted(more, 'more pair')} needed to show {what} ({_POWER} at the observed ratio){longer}."
    said = f"More than 1,000 further pairs needed ({_POWER} at the observed ratio)"
    if ratio.low is None or ratio.high is None or ratio.low <= 0.0:
        return f"{said}."
    most = max(ratio.high, 1.0 / ratio.low) - 1.0
    if not most < 0.99:  # a margin is a share of less than 1
        return f"{said}."
    percent = math.ceil(100.0 * most)
    return f"{said}; if {percent} % does not matter to you, widen the equivalence margin: --margin {percent}%."


def _would_show(ratio: Estimate, margin: float) -> str:
    """Return what more pairs would show if the ratio stays as it is: what asks for the wider interval of the two."""
    apart = abs(math.log(ratio.value))
    if math.log1p(margin) - apart > apart:
        return f"that they are the same within ±{100.0 * margin:g} %"
    return "that they differ"


def _measured(found: Comparison, course: Course) -> Iterator[str]:
    """Yield in one line how it was measured; nothing where no pair was taken."""
    if not course.pairs:
        return
    ratio = found.ratio
    alarms = f", at most {100.0 * (1.0 - ratio.level):.3g} % false alarms" if ratio is not None else ""
    counts = f"{_counted(course.pairs, 'pair')} of processes from {_counted(course.templates, 'template')}{alarms}"
    share = f", {100.0 * course.measured_share:.0f} % of it measured turns" if course.measured_share is not None else ""
    yield f"{counts}; {course.elapsed_s:.0f} s{share}; {_pinned(course.threads_pinned)}"


def _pinned(cores: int | None) -> str:
    if cores is None:
        return "threads not pinned"
    if cores < 2:
        return "one thread a side to pin" if cores else "threads not pinned: nothing here binds them"
    return f"threads of both sides pinned to {cores} logical cores"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


# ── what to mind ────────────────────────────────────────────────────────────────────────────────────────────


def _to_mind(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield what else there is to say: other work a step, other results, what failed."""
    if (larger := items_ratio(trials)) != 1.0:
        yield f"compared per item: a step of B has {larger:.3g} times the items of A's"
    if (other := other_results(found, trials, cases)) is not None:
        if other.expected_of:
            yield f"results differ as expected of {', '.join(other.expected_of)}"
        else:
            a, b = (units.significant(value, 6) for value in (other.a, other.b))
            where = f"{other.what} {a} (A) and {b} (B) where they first differ"
            yield f"different results: {where}; see that quality holds"
    failed = sum(t.outcome.status not in (Status.OK, Status.SKIPPED) for t in trials)
    if failed and found.verdict != Judgement.NOT_COMPARABLE:
        yield f"{failed} of {len(trials)} processes failed; their pairs are left out"
