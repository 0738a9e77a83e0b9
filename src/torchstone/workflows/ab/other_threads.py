"""An unclear comparison on all cores: would one thread a side settle it, and in how long? A few pairs tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from torchstone.core.schema.comparison import OtherThreads, Rules
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.nested import nested_mean
from torchstone.core.stats.student import from_log
from torchstone.workflows.ab.allocation import pace_of
from torchstone.workflows.ab.budget import FEWEST_COUPLES, FEWEST_PAIRS, Pace, fitting, with_closing_s
from torchstone.workflows.ab.forecast import pairs_to_settle
from torchstone.workflows.ab.interleaving import Go, TurnPlan, Warm
from torchstone.workflows.ab.pair import Pair, Variant

_THREADS = 1
_PAIRS = 3
_SLOWER = 2.0  # with one thread than with all, at most, most often
_SHARE = 0.1  # of the budget
_MOST_TIMES = 10  # the budget: a longer comparison is no advice
_LEVEL = 0.36  # of the false alarms: what the last of looks that are 1.25 times apart has to spend

Take = Callable[[Sequence[Variant], TurnPlan], Pair]


def with_one_thread(sides: Sequence[Variant], trials: Sequence[Trial]) -> list[Variant] | None:
    """Return the sides with one thread each; None where they have no more, or compute elsewhere than on the CPU."""
    used = [threads for trial in trials if isinstance(threads := trial.facts.threads_in_effect, int)]
    if not used or min(used) < 2 or any(side.case.placement.device != "cpu" for side in sides):
        return None
    return [
        msgspec.structs.replace(
            side,
            case=msgspec.structs.replace(side.case, configuration={**side.case.configuration, "threads": _THREADS}),
        )
        for side in sides
    ]


def reserved_s(pace: Pace, budget_s: float) -> float:
    """Return what to keep for such pairs, where those with all threads have that pace; 0 where it would be too much."""
    slower = msgspec.structs.replace(pace, couple_s=_SLOWER * pace.couple_s)
    few, usual = (slower.needed_s(_PAIRS, couples) for couples in (FEWEST_COUPLES, 4 * FEWEST_COUPLES))
    return min(usual, _SHARE * budget_s) if few <= _SHARE * budget_s else 0.0


def tried(sides: Sequence[Variant], take: Take, left_s: float) -> list[Pair]:
    """Take three pairs in the time that is left; fewer where it is too short for them."""
    pairs: list[Pair] = []
    for number in range(_PAIRS):
        share_s = (left_s - sum(_took_s(pair) for pair in pairs)) / (_PAIRS - number)
        last = pace_of(pairs)
        if share_s <= 0.0 or (last is not None and share_s < last.pair_s(FEWEST_COUPLES)):
            break

        def decide(known: Warm, share_s: float = share_s, end_s: float = last.end_s if last else 0.1) -> Go:
            couples = fitting(Pace(known.warm_s, known.couple_s(known.steps), end_s), share_s, 1)
            return Go(couples if couples >= FEWEST_COUPLES else 0, known.steps)

        pair = take(sides, TurnPlan(decide=decide))
        if not pair.logs:
            break
        pairs.append(pair)
    return pairs


def forecast(pairs: Sequence[Pair], rules: Rules, ratio: float, before_s: float) -> OtherThreads | None:
    """Return what these pairs say of a whole comparison with one thread a side.

    `ratio`: what is taken for true, by the comparison with all threads, as few pairs know theirs badly; `before_s`:
    what it takes before its first pair. None where it would stay unclear, or so for more than ten times the budget.
    """
    values = [(found.value, found.error) for pair in pairs if (found := pair.location) is not None]
    if any(error <= 0.0 for _, error in values):
        values = [(value, 0.0) for value, _ in values]
    pace, mean = pace_of(pairs), nested_mean([values])
    more = (
        pairs_to_settle([values], _LEVEL * rules.false_alarms, rules.margin, math.log(ratio))
        if len(values) > 1
        else None
    )
    if pace is None or mean is None or more is None:
        return None
    needed, couples = max(FEWEST_PAIRS, len(values) + more), min(len(pair.logs) for pair in pairs)
    within_s = before_s + pace.needed_s(needed, couples)
    if within_s > _MOST_TIMES * rules.budget_s:
        return None
    return OtherThreads(_THREADS, len(values), from_log(mean.value), needed, with_closing_s(within_s))


def _took_s(pair: Pair) -> float:
    return pair.spans.warm_s + pair.spans.turns_s + pair.spans.end_s
