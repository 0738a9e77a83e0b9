"""The answer of a live comparison in sentences: what B does to A with its interval, what would settle it, and how."""

from __future__ import annotations

import math

from torchstone.cli._ab_course import Course
from torchstone.cli._ab_progress import is_narrow
from torchstone.core import units
from torchstone.core.schema.comparison import Comparison, Judgement
from torchstone.core.schema.estimate import Estimate

_MOST_S = 1e6  # a longer comparison is no advice


def headline(found: Comparison) -> str:
    """Return the answer in one sentence, with its interval."""
    a, b, ratio = found.baseline.label, found.candidate.label, found.ratio
    if found.verdict == Judgement.NOT_COMPARABLE:
        return f"{b} and {a} are not comparable: {found.why}."
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"Unclear: {found.why or f'too few pairs of {b} and {a} in the time given'}."
    narrow = is_narrow(ratio.low, ratio.high)
    if not narrow and found.verdict in (Judgement.BETTER, Judgement.WORSE):
        less = "less" if found.verdict == Judgement.BETTER else "more"
        return f"{b} takes {less} time than {a}, how much is not known to ±50 % yet: {found.verdict}."
    if not narrow:
        return f"Unclear: how {b} and {a} differ is not known to ±50 % yet."
    if found.verdict == Judgement.UNCLEAR:
        return f"Unclear: {b} may take {_between(ratio)} than {a} ({_level(ratio)} interval)."
    if found.verdict == Judgement.SAME:
        within = units.quantity(found.margin, "ratio")
        return f"{b} takes as long as {a}, to within {within} ({_level(ratio)} interval: {_between(ratio)}): same."
    return f"{b} takes {_change(ratio.value)} than {a} ({_level(ratio)} interval: {_between(ratio)}): {found.verdict}."


def settling(found: Comparison, course: Course) -> str | None:
    """Return what would settle an unclear comparison: more time, other threads, or where neither would, a wider margin.

    None where it is settled, or too little is known to say.
    """
    ratio, other = found.ratio, found.with_other_threads
    if found.verdict != Judgement.UNCLEAR or ratio is None:
        return None
    said = _more(found, course)
    if other is not None:
        took = f"{other.pairs} pairs of it, measured here, spread so little"
        sooner = f"--axis threads={other.threads} --within {_minutes(other.within_s)}"
        said += f" Sooner on fewer cores: {took} that {other.pairs_needed} would settle it: {sooner}."
    return said


def how(found: Comparison, course: Course) -> str | None:
    """Return how it was measured in one line; None where no pair was taken."""
    if not course.pairs:
        return None
    ratio = found.ratio
    alarms = f", at most {1.0 - ratio.level:.1%} false alarms" if ratio is not None else ""
    counts = f"{_counted(course.pairs, 'pair')} of processes from {_counted(course.templates, 'template')}{alarms}"
    took = f"; {course.elapsed_s:.0f} s" if course.elapsed_s is not None else ""
    share = f", {course.measured_share:.0%} of them measured turns" if course.measured_share is not None else ""
    return f"{counts}{took}{share}{_pinned(course)}"


def _pinned(course: Course) -> str:
    if course.threads_pinned is None:
        return "; threads not pinned"
    if course.threads_pinned < 2:
        return (
            "; one thread a side to pin" if course.threads_pinned else "; threads not pinned: nothing here binds them"
        )
    return f"; the threads of both sides pinned, to {course.threads_pinned} logical cores"


def _more(found: Comparison, course: Course) -> str:
    more, ratio = found.trials_to_settle, found.ratio
    if more is not None:
        needed_s = course.elapsed_s * (1.0 + more / course.pairs) if course.elapsed_s and course.pairs else math.inf
        longer = f": --within {_minutes(needed_s)}" if needed_s < _MOST_S else ""
        pairs = _counted(more, "more pair")
        return f"About {pairs} would settle it, 4 times in 5, if B takes what it now seems{longer}."
    said = "Not even 1,000 more pairs would settle it"
    if ratio is None or ratio.low is None or ratio.high is None or ratio.low <= 0.0:
        return f"{said}."
    most = max(ratio.high, 1.0 / ratio.low) - 1.0
    if not most < 0.99:  # a margin is a share of less than 1
        return f"{said}."
    percent = math.ceil(100.0 * most)
    return f"{said}; if {percent} % does not matter to you, say so: --margin {percent}%."


def _minutes(seconds: float) -> str:
    """Return a time for --within, rounded up."""
    return f"{math.ceil(seconds / 10.0) * 10}s" if seconds <= 60.0 else f"{math.ceil(seconds / 60.0)}m"


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


def _level(ratio: Estimate) -> str:
    return f"{100.0 * ratio.level:g} %"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
