"""An unclear comparison on all cores: would one thread a side settle it, and in how long? A few pairs tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from torchstone.ab.allocation import pace_of
from torchstone.ab.budget import FEWEST_COUPLES, FEWEST_PAIRS, Pace, closing_s, fitting
from torchstone.ab.forecast import pairs_to_settle
from torchstone.ab.pair import Contender, Pair
from torchstone.ab.turns import Go, TurnPlan, Warm
from torchstone.stats.logs import from_log
from torchstone.stats.nested import nested_mean
from torchstone.terms.comparison import OtherThreads, Rules
from torchstone.terms.trial import Trial

_THREADS = 1
_PAIRS = 3
_LEVEL = 0.36  # of the false alarms: what the last of looks that are 1.25 times apart has to spend

Take = Callable[[Sequence[Contender], TurnPlan], Pair]


def with_one_thread(sides: Sequence[Contender], trials: Sequence[Trial]) -> list[Contender] | None:
    """Return the sides with one thread each; None where they have no more, or compute elsewhere than on the CPU."""
    used = [threads for trial in trials if isinstance(threads := trial.facts.get("threads_in_effect"), int)]
    if not used or min(used) < 2 or any(side.case.placement.device != "cpu" for side in sides):
        return None
    return [
        msgspec.structs.replace(
            side,
            case=msgspec.structs.replace(side.case, configuration={**side.case.configuration, "threads": _THREADS}),
        )
        for side in sides
    ]


def tried(sides: Sequence[Contender], take: Take, left_s: float, rules: Rules, before_s: float) -> OtherThreads | None:
    """Take three pairs in the time that is left, and return what they forecast; None: too little time, or nothing good.

    `before_s`: what a comparison takes before its first pair.
    """
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
    return forecast(pairs, rules, before_s)


def forecast(pairs: Sequence[Pair], rules: Rules, before_s: float) -> OtherThreads | None:
    """Return what so many pairs with one thread a side say of a whole comparison; None where it would stay unclear."""
    values = [(found.value, found.error) for pair in pairs if (found := pair.location) is not None]
    if any(error <= 0.0 for _, error in values):
        values = [(value, 0.0) for value, _ in values]
    pace, mean = pace_of(pairs), nested_mean([values])
    more = pairs_to_settle([values], _LEVEL * rules.false_alarms, rules.margin) if len(values) > 1 else None
    if pace is None or mean is None or more is None:
        return None
    needed, couples = max(FEWEST_PAIRS, len(values) + more), min(len(pair.logs) for pair in pairs)
    within_s = before_s + pace.needed_s(needed, couples)
    return OtherThreads(_THREADS, len(values), from_log(mean.value), needed, within_s + closing_s(within_s))


def _took_s(pair: Pair) -> float:
    return pair.spans.warm_s + pair.spans.turns_s + pair.spans.end_s
