"""A live comparison as a Document: what B does to A with its interval, what would settle it, both sides beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torchstone.analysis.advice.fed import fed_words
from torchstone.analysis.compare.ab_sides import (
    BY_PAIRS,
    FigureOfSides,
    figures_of_sides,
    is_narrow,
    items_ratio,
    other_results,
)
from torchstone.core import units
from torchstone.core.schema.answer import AbResult, Course
from torchstone.core.schema.comparison import Comparison, Judgement
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.trial import Status, Trial
from torchstone.report.charts.ratios import Ratio, ratios_chart
from torchstone.report.document import Chart, Column, Document, Facts, Part, Role, Table, Text

if TYPE_CHECKING:
    from torchstone.analysis.summary import CaseSummary

_TITLES = {
    "step_time_mean": "mean step time", "latency_per_batch_p50_s": "latency p50", "throughput": "throughput",
    "peak_rss_bytes": "peak memory", "peak_reserved_bytes": "device memory", "loss_first": "first loss",
}  # fmt: skip
_MOST_S = 1e6  # a longer comparison is no advice
_POWER = "80 % power"
_BY_PAIRS = "mean step time, throughput: the geometric mean of both sides, divided by the ratio of the pairs"


def ab_document(
    answer: AbResult, trials: Sequence[Trial], cases: Sequence[CaseSummary], files: Mapping[str, str] | None = None
) -> Document:
    """Return the answer of a live comparison. `cases`: those of its two sides; `files`: what was written, by its name.

    `trials`: all of its record, with the facts side, pair and template.
    """
    found = answer.comparison
    parts = _parts(found, trials, cases, answer.course)
    written = (Facts(tuple(files.items())),) if files else ()
    return Document(f"{found.candidate.label} against {found.baseline.label}", (*parts, *written))


def _parts(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary], course: Course) -> Iterator[Part]:
    yield Text(_headline(found), Role.HEADLINE)
    yield from (Text(line) for line in (*_needed(found, course), *_measured(found, course), *fed_words(cases)))
    if rows := figures_of_sides(found, trials):
        yield _table(rows, found)
        if any(row.name in BY_PAIRS and row.ratio is not None for row in rows):
            yield Text(_BY_PAIRS, Role.DETAIL)
    yield from _ratios(found)
    yield from (Text(line, Role.NOTE) for line in _to_mind(found, trials, cases))


def _table(rows: Sequence[FigureOfSides], found: Comparison) -> Table:
    unit = {row.name: FIGURES[row.name].unit for row in rows}
    ratios = tuple(units.change(row.ratio) if row.ratio is not None else "" for row in rows)
    return Table((
        Column("median of processes", tuple(_TITLES[row.name] for row in rows), left=True),
        Column(f"A: {found.baseline.label}", tuple(units.quantity(row.a, unit[row.name]) for row in rows)),
        Column(f"B: {found.candidate.label}", tuple(units.quantity(row.b, unit[row.name]) for row in rows)),
        Column("B against A", ratios),
    ))  # fmt: skip


def _ratios(found: Comparison) -> Iterator[Chart]:
    """Yield the ratio that was tested, B ÷ A of the time an item; nothing where the pairs give none."""
    ratio = found.ratio
    if ratio is not None and found.verdict != Judgement.NOT_COMPARABLE:
        named = f"{found.candidate.label} against {found.baseline.label}"
        ends, verdict = (ratio.value, ratio.low, ratio.high), str(found.verdict)
        row = Ratio(named, "time an item", *ends, verdict)
        yield from ratios_chart((row,), found.margin, ratio.level)


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────


def _headline(found: Comparison) -> str:
    """Return the answer in one sentence, with its interval."""
    a, b, ratio = found.baseline.label, found.candidate.label, found.ratio
    if found.verdict == Judgement.NOT_COMPARABLE:
        return f"{b} and {a} are not comparable: {found.why_text}."
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"Unclear: {found.why_text or f'too few pairs of {b} and {a} in the time given'}."
    narrow = is_narrow(ratio.low, ratio.high)
    if not narrow and found.verdict in (Judgement.BETTER, Judgement.WORSE):
        less = "less" if found.verdict == Judgement.BETTER else "more"
        return f"{b} takes {less} time than {a}, how much is not known to ±50 % yet: {found.verdict}."
    if not narrow:
        return f"Unclear: how {b} and {a} differ is not known to ±50 % yet."
    between, level = _between(ratio), f"{100.0 * ratio.level:g} % confidence interval"
    if found.verdict == Judgement.UNCLEAR:
        return f"Unclear: {b} may take {between} than {a} ({level})."
    if found.verdict == Judgement.SAME:
        within = f"equivalence margin ±{units.quantity(found.margin, 'ratio')}"
        return f"{b} takes as long as {a} ({within}; {level}: {between}): same."
    return f"{b} takes {_change(ratio.value)} than {a} ({level}: {between}): {found.verdict}."


def _change(ratio: float) -> str:
    """Return a ratio of times in words: "3.1 % more time"."""
    return f"{abs(100.0 * (ratio - 1.0)):.1f} % {'more' if ratio >= 1.0 else 'less'} time"


def _between(ratio: Estimate) -> str:
    """Return an interval in words: "1.2 to 5.0 % more time", "2.0 % less to 4.0 % more time"."""
    low, high = (100.0 * ((end or 1.0) - 1.0) for end in (ratio.low, ratio.high))
    if low >= 0.0:
        return f"{low:.1f} to {high:.1f} % more time"
    if high <= 0.0:
        return f"{-high:.1f} to {-low:.1f} % less time"
    return f"{-low:.1f} % less to {high:.1f} % more time"


# ── what would settle it, and how it was measured ───────────────────────────────────────────────────────────


def _needed(found: Comparison, course: Course) -> Iterator[str]:
    """Yield what would settle an unclear comparison: more time, other threads, or where neither would, a wider margin.

    Nothing where it is settled, or too little is known to say.
    """
    ratio, other = found.ratio, found.with_other_threads
    if found.verdict != Judgement.UNCLEAR or ratio is None:
        return
    yield _more_pairs(found, ratio, course)
    if other is not None:
        measured = f"{_counted(other.pairs, 'such pair')} measured here"
        flags = f"--axis threads={other.threads} --within {_minutes(other.within_s)}"
        yield (
            f"Sooner with threads={other.threads}: about {_counted(other.pairs_needed, 'pair')} needed in all "
            f"({_POWER}, from {measured}): {flags}."
        )


def _more_pairs(found: Comparison, ratio: Estimate, course: Course) -> str:
    more = found.trials_to_settle
    if more is not None:
        needed_s = course.elapsed_s * (1.0 + more / course.pairs) if course.elapsed_s and course.pairs else math.inf
        longer = f": --within {_minutes(needed_s)}" if needed_s < _MOST_S else ""
        return f"About {_counted(more, 'more pair')} needed ({_POWER} at the observed ratio){longer}."
    said = f"More than 1,000 further pairs needed ({_POWER} at the observed ratio)"
    if ratio.low is None or ratio.high is None or ratio.low <= 0.0:
        return f"{said}."
    most = max(ratio.high, 1.0 / ratio.low) - 1.0
    if not most < 0.99:  # a margin is a share of less than 1
        return f"{said}."
    percent = math.ceil(100.0 * most)
    return f"{said}; if {percent} % does not matter to you, widen the equivalence margin: --margin {percent}%."


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


def _minutes(seconds: float) -> str:
    """Return a time for --within, rounded up."""
    return f"{math.ceil(seconds / 10.0) * 10}s" if seconds <= 60.0 else f"{math.ceil(seconds / 60.0)}m"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


# ── what to mind ────────────────────────────────────────────────────────────────────────────────────────────


def _to_mind(found: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield what else there is to say: other work a step, other results, what failed."""
    if (larger := items_ratio(trials)) != 1.0:
        yield f"batch sizes differ: comparing time per item, as a step of B has {larger:.3g} times the items of A's"
    if (other := other_results(found, trials, cases)) is not None:
        a, b = (units.significant(value, 6) for value in (other.a, other.b))
        causes = ", ".join(other.expected_of)
        expected = f", as is expected of {causes}: see that quality holds" if causes else ""
        yield f"the sides compute different results: the first {other.what} that differs is {a} and {b}{expected}"
    failed = sum(t.outcome.status not in (Status.OK, Status.SKIPPED) for t in trials)
    if failed and found.verdict != Judgement.NOT_COMPARABLE:
        yield f"{failed} of {len(trials)} processes failed; their pairs are left out"
