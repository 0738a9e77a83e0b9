"""A sequential test of pair values: looked at again and again, with a bound on false alarms over all looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from torchstone.core.schema.comparison import Judgement, OtherThreads, Rules, judge
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.nested import (
    ASSUMED_SPREAD,
    ASSUMED_WEIGHT,
    Location,
    Pairs,
    Spending,
    location_half_width,
    nested_mean,
    random_effects,
)
from torchstone.core.stats.student import from_log, t_quantile, tail
from torchstone.workflows.ab.interleaving import Go, TurnPlan, Warm
from torchstone.workflows.ab.pair import Pair, Variant
from torchstone.workflows.ab.timetable import FEWEST_COUPLES, FEWEST_PAIRS, Pace, fitting, pace_of, with_closing_s

_APART = 1.25  # a look has so many times the pairs of the one before: each costs some of the bound
_LATEST = 0.75  # of the budget: what a later look spends, the last one lacks, which is the answer


class TestLook(msgspec.Struct, frozen=True):
    """What is known at a look: the ratio of an item's time B ÷ A, the ends of its interval, and the verdict on B."""

    value: float
    low: float
    high: float
    verdict: Judgement
    pairs: int
    templates: int

    @property
    def settled(self) -> bool:
        """Whether there is nothing more to find out."""
        return self.verdict != Judgement.UNCLEAR


class SequentialTest:
    """Collects pair values (logarithms of B ÷ A), a group for each template."""

    def __init__(self, margin: float, false_alarms: float) -> None:
        self._margin = margin
        self._spending = Spending(false_alarms)
        self._groups: list[list[tuple[float, float]]] = []
        self._next_look, self._seen = FEWEST_PAIRS, 0  # pairs at the next look, and at the last
        self.last: TestLook | None = None
        self._level = false_alarms  # of the last look

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return sum(map(len, self._groups))

    def new_template(self) -> None:
        """The pairs that follow were forked from another template."""
        self._groups.append([])

    def add(self, value: float, error: float) -> None:
        """Take in the value of one pair, and its standard error by the spread of its turns; 0 where that is unknown."""
        self._groups[-1].append((value, error))

    def due(self, progress: float) -> bool:
        """Say whether to look now: there are enough pairs since the last look, and it is not too late for another."""
        return self.pairs >= self._next_look and progress <= _LATEST

    def look(self, progress: float) -> TestLook | None:
        """Look at what there is; `progress`: the share of the budget that is spent. None where that says nothing yet.

        The interval holds at the level of this look; that of the last look, together with all before, at the bound.
        Without a new pair it is the look before: to look again at what is left of the bound would only widen it.
        """
        if self.last is not None and self.pairs == self._seen:
            return self.last
        known, self._seen = self._weighed_pairs(), self.pairs
        found = nested_mean(known)
        level = self._spending.level(progress)
        self._next_look = max(self.pairs + 1, math.ceil(self.pairs * _APART))
        if found is None or self.pairs < FEWEST_PAIRS or level <= 0.0:
            return None
        half, self._level = location_half_width(found, level), level
        low, high = from_log(found.value - half), from_log(found.value + half)
        verdict = judge(low, high, self._margin, higher_is_better=False)
        templates = sum(bool(group) for group in known)
        self.last = TestLook(from_log(found.value), low, high, verdict, sum(map(len, known)), templates)
        return self.last

    def pairs_to_settle(self) -> int | None:
        """Return how many further pairs would settle what is unclear, with a power of 80 %; None: not in 1,000.

        If the ratio is what it now seems. Also None where it is settled, or nothing is known of it yet.
        """
        if self.last is None or self.last.settled:
            return None
        return pairs_to_settle(self._weighed_pairs(), self._level, self._margin)

    def _weighed_pairs(self) -> Sequence[Pairs]:
        """Return the pairs as they may be weighed: by their errors, where those of enough pairs are known.

        Of few turns the spread says nothing of their middle, and who seems surest would carry the mean. So all weigh
        alike then: the mean has the error that their scatter shows, whatever each is worth. Where enough pairs are
        known, those that were cut short are left out: for their length, whatever they say.
        """
        known = [[pair for pair in group if pair[1] > 0.0] for group in self._groups]
        if sum(map(len, known)) >= FEWEST_PAIRS:
            return known
        return [[(value, 0.0) for value, _ in group] for group in self._groups]


MOST_TEMPLATES = 6
_POWER = 0.8
_MOST_PAIRS = 1000  # further ones: more than that is no advice


def pairs_to_settle(groups: Sequence[Pairs], level: float, margin: float, apart: float | None = None) -> int | None:
    """Return how many further pairs would settle it, with a power of 80 %, at a look of that level; None: not in 1,000.

    `groups`: pair values (logarithms) with their errors, a group for each template. `apart`: the logarithm of the ratio
    that is taken for true; None: their mean. None of fewer than 2 pairs, too.
    """
    pairs = [pair for group in groups for pair in group]
    whole, found = random_effects([v for v, _ in pairs], [e for _, e in pairs]), nested_mean(groups)
    if whole is None or found is None:
        return None
    forecast, apart = (
        _Forecast(whole, found, len(pairs), sum(map(bool, groups))),
        abs(found.value if apart is None else apart),
    )
    low, high = 0, _MOST_PAIRS
    if not _settles(apart, *forecast.spread(high), level, margin):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _settles(apart, *forecast.spread(middle), level, margin) else (middle, high)
    return high


def _settles(apart: float, error: float, df: float, level: float, margin: float) -> bool:
    """Say whether an interval at that level leaves 1 out, or lies within the margin, often enough.

    `apart`: how far the logarithm of the ratio is from 0, taken for true; estimates are Student's about it.
    """
    if error <= 0.0:
        return False
    half = t_quantile(1.0 - level / 2.0, df) * error
    room = math.log1p(margin) - half  # an estimate nearer to 0 has an interval within the margin
    if room >= half:
        return True

    def nearer(reach: float) -> float:
        sides = ((reach - apart) / error, (reach + apart) / error)
        return 1.0 - sum(tail(t, df) if t >= 0.0 else 1.0 - tail(-t, df) for t in sides) if reach > 0.0 else 0.0

    return nearer(half) - nearer(room) <= 1.0 - _POWER


class _Forecast:
    """The error of an experiment's mean after further pairs: of its two parts only one shrinks with the pairs.

    The other is what templates differ by, over their number, which more time raises to MOST_TEMPLATES at most.
    """

    def __init__(self, whole: Location, location: Location, pairs: int, templates: int) -> None:
        """`whole`: the mean of the pairs without regard to templates; `location`: with it (nested_mean)."""
        self._whole, self._pairs, self._templates = whole, pairs, templates
        share = 1.0 / templates - 1.0 / pairs
        part = max(0.0, location.error**2 - whole.error**2)
        self._between = part / share if share > 0.0 else ASSUMED_SPREAD**2

    def spread(self, more: int) -> tuple[float, float]:
        """Return (standard error, degrees of freedom) after so many further pairs, combined as in nested_mean."""
        pairs = self._pairs + more
        templates = max(self._templates, min(MOST_TEMPLATES, self._templates * pairs // self._pairs))
        own, own_df = self._whole.error**2 * self._pairs / pairs, (self._whole.df + 1.0) * pairs / self._pairs - 1.0
        part, part_df = self._between * (1.0 / templates - 1.0 / pairs), ASSUMED_WEIGHT + templates - 1.0
        variance = own + part
        if variance <= 0.0:
            return 0.0, own_df
        return math.sqrt(variance), variance**2 / (own**2 / own_df + part**2 / part_df)


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
        took_s = sum(pair.spans.warm_s + pair.spans.turns_s + pair.spans.end_s for pair in pairs)
        share_s = (left_s - took_s) / (_PAIRS - number)
        last = pace_of(pairs)
        if share_s <= 0.0 or (last is not None and share_s < last.pair_s(FEWEST_COUPLES)):
            break

        def decide(warm: Warm, share_s: float = share_s, end_s: float = last.end_s if last else 0.1) -> Go:
            couples = fitting(Pace(warm.warm_s, warm.couple_s(warm.steps), end_s), share_s, 1)
            return Go(couples if couples >= FEWEST_COUPLES else 0, warm.steps)

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
