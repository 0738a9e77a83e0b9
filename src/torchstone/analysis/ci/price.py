"""What would decide an undecided benchmark: the command, its pairs, its time and its price."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import AbResult
from torchstone.core.schema.run import Run

FIRST_SHARE = 0.7  # of a job's time, for measuring each benchmark once; the rest is for what stays undecided
_MOST_S = 86_400.0  # a day: more is no advice
_SECONDS_AN_HOUR = 3600.0


class Price(msgspec.Struct, frozen=True):
    """`words`: the command; empty where none decides. `within_s`: its time; `pairs`: of processes, in all (80 % power).

    `cost`: at the price of an hour that was given, without a currency. `margin`: where no time in reach decides, the
    equivalence margin with which the interval that was found would.
    """

    words: tuple[str, ...] = ()
    within_s: float | None = None
    pairs: int | None = None
    cost: float | None = None
    margin: float | None = None


def price_of(run: Run, command: Sequence[str], per_hour: float | None = None) -> Price:
    """Return what would decide the comparison of `run`; a Price without a time where that is not known.

    `command`: `torchstone ab BASE HEAD …` as it was; empty where no words measure it alone. The record may be a
    stranger's: what cannot be is taken for unknown.
    """
    if not isinstance(run.answer, AbResult) or (found := run.answer.comparison).ratio is None:
        return Price()
    course, more, other = run.answer.course, found.trials_to_settle, found.with_other_threads
    choices: list[tuple[float, int, tuple[str, ...]]] = []
    if more is not None and more > 0 and course.elapsed_s > 0.0 and course.pairs > 0:
        choices.append((_longer_s(run, course.elapsed_s) * (1.0 + more / course.pairs), course.pairs + more, ()))
    if other is not None and other.pairs_needed > 0 and 0 < other.threads < 10_000:
        choices.append((other.within_s, other.pairs_needed, ("--axis", f"threads={other.threads}")))
    choices = [one for one in choices if 0.0 < one[0] <= _MOST_S]
    if not choices:
        return Price(margin=_margin(found.ratio.low, found.ratio.high))
    within_s, pairs, flags = min(choices)
    words = with_flags(command, *flags, "--within", within_words(within_s)) if command else ()
    cost = per_hour * within_s / _SECONDS_AN_HOUR if per_hour is not None else None
    return Price(words, within_s, pairs, cost)


def with_flags(command: Sequence[str], *flags: str) -> tuple[str, ...]:
    """Return a command with further flags: before what stands behind --, which is a program's."""
    end = command.index("--") if "--" in command else len(command)
    return (*command[:end], *flags, *command[end:])


def of_the_job(why: Statement, comparisons: int) -> Statement:
    """Return why a comparison has no ratio, with the time that is enough for it turned into that of the whole job."""
    reason, _, enough = why.id.partition(".")
    needed_s = why.values.get("needed_s")
    if enough != "enough" or not isinstance(needed_s, int | float):
        return why
    within = within_words(needed_s * comparisons / FIRST_SHARE)
    return Statement(f"{reason}.enough_for_all", {**why.values, "within": within})


def within_words(seconds: float) -> str:
    """Return a time for --within, rounded up: 41 → "50s", 61 → "2m"."""
    return f"{math.ceil(seconds / 10.0) * 10}s" if seconds <= 60.0 else f"{math.ceil(seconds / 60.0)}m"


def _longer_s(run: Run, recorded_s: float) -> float:
    """Return what the test took: a record has the time of its processes, its budget that of starting them, too."""
    given_s = run.head.ab.budget_s if run.head.ab is not None else 0.0
    return max(recorded_s, given_s) if 0.0 < given_s <= 2.0 * recorded_s else recorded_s


def _margin(low: float | None, high: float | None) -> float | None:
    if low is None or high is None or not 0.0 < low <= high:
        return None
    most = max(high, 1.0 / low) - 1.0
    return math.ceil(100.0 * most) / 100.0 if most < 0.99 else None
