"""Stored runs compared: every figure of every matched Case, judged with a known rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.compare.comparability import Sameness, sameness, shapes_differ
from torchstone.analysis.compare.compared_figures import (
    BLOCK_OF,
    FOLLOWING,
    PerTrial,
    comparable,
    estimate_of_side,
    higher_is_better,
    of_side,
    primary,
    unit_of,
)
from torchstone.analysis.compare.contrast import Contrast, Drifts, Sides, contrast, drifts_of
from torchstone.analysis.compare.environment_diff import differing, disturbed, lengths_apart, same_machine
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.compare.matching import Matched, Taken, match
from torchstone.config.prices import HourlyPrice
from torchstone.core.errors import UsageError
from torchstone.core.schema.comparison import Comparison, Differing, Judgement, Side, judge
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.comparing import Difference
from torchstone.core.stats.logs import from_log
from torchstone.core.stats.multiple import benjamini_hochberg, holm
from torchstone.core.units import quantity

ALPHA = 0.05
_FAR_S = 600.0  # runs of one machine with more between them: its drift since is not seen
_MOSTLY_DRIFT = 1.5  # times as wide as processes alone make it: then it is worth a word
_ROUNDING = 1e-9
_TIMED = ("throughput", "latency", "energy", "cost")  # blocks whose figures a busy neighbour moves


class Offered(msgspec.Struct, frozen=True):
    """The price of an hour of a device in a price table, and its currency."""

    price: HourlyPrice
    currency: str


class Asked(msgspec.Struct, frozen=True):
    """How to judge. `prices`: money an hour, by the letter of a participant; `offers`: those that are of a table."""

    margin: float = 0.02
    prices: Mapping[str, float] = {}
    offers: Mapping[str, Offered] = {}


class Judged(msgspec.Struct, frozen=True):
    """One Comparison with its place: the Case in words, the task, the block it is shown in, the value of each side."""

    case: str
    task: str
    block: str
    unit: str
    comparison: Comparison
    baseline_value: Estimate | None = None
    candidate_value: Estimate | None = None


class ComparedRuns(msgspec.Struct, frozen=True):
    """Everything that was compared. `levels`: of the intervals of the first figure of each Case, and of all others."""

    participants: tuple[ComparedInput, ...]
    matched: tuple[Matched, ...]
    judged: tuple[Judged, ...]
    asked: Asked
    levels: tuple[float, float]

    @property
    def margin(self) -> float:
        """What counts as equal."""
        return self.asked.margin


class _Drawn(msgspec.Struct, frozen=True):
    """A contrast before it is judged, and what it is of."""

    matched: Matched
    candidate: ComparedInput
    metric: str
    contrast: Contrast


class _Pair(msgspec.Struct, frozen=True):
    """Two sides of a matched Case, and what is to be said of them before any figure."""

    matched: Matched
    candidate: ComparedInput
    same: Sameness
    differing: tuple[Differing, ...]
    sides: Sides


def compare(participants: Sequence[ComparedInput], asked: Asked) -> ComparedRuns:
    """Compare every participant with the first. Raises UsageError where no Case of it matches another's."""
    baseline, matched = participants[0], match(participants)
    pairs = [
        _pair(each, baseline, candidate)
        for each in matched if baseline.letter in each.sides
        for candidate in participants[1:] if candidate.letter in each.sides
    ]  # fmt: skip
    if not pairs:
        raise UsageError(f"no case in common with the baseline {baseline.letter}: choose another with --baseline")
    values = {
        (each.label, letter): of_side(side, asked.prices.get(letter))
        for each in matched for letter, side in each.sides.items()
    }  # fmt: skip
    drifts = drifts_of(list(_by_run(matched, values)))
    drawn = [one for pair in pairs if pair.same.against is None for one in _draw(pair, baseline, values, drifts)]
    first, others = _judged_apart(drawn)
    verdicts = {_key(one): level for family, level in (first, others) for one in family}
    judged: list[Judged] = []
    for pair in pairs:
        own = [one for one in drawn if one.matched is pair.matched and one.candidate is pair.candidate]
        if not own:
            judged.append(_not_comparable(pair, baseline, asked.margin))
        judged += [_judge(one, pair, baseline, verdicts[_key(one)], asked) for one in own]
    return ComparedRuns(tuple(participants), tuple(matched), tuple(judged), asked, (first[1], others[1]))


def _key(one: _Drawn) -> tuple[str, str, str]:
    return one.matched.label, one.candidate.letter, one.metric


def _judged_apart(drawn: Sequence[_Drawn]) -> tuple[tuple[list[_Drawn], float], tuple[list[_Drawn], float]]:
    """Return two families with the level of their intervals: what answers which is faster, and all other figures.

    No table in twenty has a false alarm in the first (Holm); in the second one in twenty of those raised is false.
    What is another figure turned round has the level of that.
    """
    first = [one for one in drawn if one.metric == primary(one.matched.task)]
    logs = {_key(one)[:2]: one.contrast.difference.log for one in first}
    following: list[_Drawn] = []
    others: list[_Drawn] = []
    for one in drawn:
        if one.metric != primary(one.matched.task):
            (following if _follows(one, logs.get(_key(one)[:2])) else others).append(one)
    level = holm([one.contrast.difference.p_value() for one in first], ALPHA)[1] if first else 1.0 - ALPHA
    wide = benjamini_hochberg([one.contrast.difference.p_value() for one in others], ALPHA)[1] if others else level
    return ([*first, *following], level), (others, wide)


def _follows(one: _Drawn, log: float | None) -> bool:
    """Return whether a figure is the inverse of the one that answers which is faster, whose ratio has that logarithm.

    Its interval and verdict are then those of the other: to test it again could only contradict.
    """
    return log is not None and one.metric in FOLLOWING and abs(one.contrast.difference.log + log) < _ROUNDING


def _pair(matched: Matched, baseline: ComparedInput, candidate: ComparedInput) -> _Pair:
    a, b = matched.sides[baseline.letter], matched.sides[candidate.letter]
    same = sameness(a, b)
    apart = lengths_apart(a, b) if same_machine(a[-1], b[-1]) else None
    sides = Sides(a, b, apart[1] if apart is not None else None)
    found = [*same.differing, *differing(a[-1], b[-1])]
    if apart is not None and apart[0] > _FAR_S and not sides.in_turn:
        matters = f"{quantity(apart[0], 's')} apart on one machine: drift between them is not measured; ab interleaves"
        found.append(Differing("time", a[-1].run.head.started_utc, b[-1].run.head.started_utc, matters))
    return _Pair(matched, candidate, same, tuple(found), sides)


def _by_run(
    matched: Sequence[Matched], values: Mapping[tuple[str, str], Mapping[str, Sequence[PerTrial]]]
) -> Iterator[tuple[Taken, Mapping[str, PerTrial]]]:
    for each in matched:
        for letter, side in each.sides.items():
            found = values[each.label, letter]
            having = [taken for taken in side if taken.trials]
            for place, taken in enumerate(having):
                yield taken, {name: runs[place] for name, runs in found.items() if len(runs) == len(having)}


def _draw(
    pair: _Pair, baseline: ComparedInput, values: Mapping[tuple[str, str], Mapping[str, Sequence[PerTrial]]],
    drifts: Drifts,
) -> Iterator[_Drawn]:  # fmt: skip
    a, b = (values[pair.matched.label, letter] for letter in (baseline.letter, pair.candidate.letter))
    reshaped = shapes_differ(pair.same)
    for metric in BLOCK_OF:
        if metric in a and metric in b and comparable(pair.matched.task, shapes_differ=reshaped, figure=metric):
            found = contrast(metric, pair.sides, a[metric], b[metric], drifts)
            yield _Drawn(pair.matched, pair.candidate, metric, found)


def _side(pair: _Pair, who: ComparedInput) -> Side:
    newest = pair.matched.sides[who.letter][-1]
    return Side(who.label, newest.run.head.run_id, newest.case.case_id)


def _not_comparable(pair: _Pair, baseline: ComparedInput, margin: float) -> Judged:
    metric = primary(pair.matched.task)
    why = pair.same.against or "they have no figure in common"
    found = Comparison(
        _side(pair, baseline), _side(pair, pair.candidate), metric, None, Judgement.NOT_COMPARABLE, margin,
        pair.differing, why,
    )  # fmt: skip
    return Judged(pair.matched.label, pair.matched.task, BLOCK_OF[metric], unit_of(metric), found)


def _judge(one: _Drawn, pair: _Pair, baseline: ComparedInput, level: float, asked: Asked) -> Judged:
    found, higher, margin = one.contrast, higher_is_better(one.metric), asked.margin
    low, high = map(from_log, found.difference.interval(level))
    ratio = Estimate(
        from_log(found.difference.log), low, high, level, "ratio", found.method, found.trials, found.samples
    )
    verdict = judge(low, high, margin, higher_is_better=higher)
    # Of trials beside a neighbour more are no help: only what is open by its interval has a number that settles it.
    can_repeat = not (baseline.trains or one.candidate.trains)
    settle = found.difference.to_settle(level, margin) if verdict == Judgement.UNCLEAR and can_repeat else None
    block, labels = BLOCK_OF[one.metric], list(found.labels)
    if block in _TIMED and verdict in (Judgement.BETTER, Judgement.WORSE):
        sides = {"baseline": pair.sides.baseline[-1], "candidate": pair.sides.candidate[-1]}
        worse, better = ("candidate", "baseline") if verdict == Judgement.WORSE else ("baseline", "candidate")
        if (what := disturbed(sides[worse], sides[better])) is not None:
            labels.append(f"only the worse side ({worse}) was disturbed ({what}): measure it again")
            verdict = Judgement.UNCLEAR
    if verdict == Judgement.UNCLEAR and one.metric == primary(one.matched.task) and pair.sides.apart is not None:
        labels += _of_drift(found.difference, level)
    why = "; ".join([*([pair.same.label] if pair.same.label else []), *labels]) or None
    comparison = Comparison(
        _side(pair, baseline), _side(pair, one.candidate), one.metric, ratio, verdict, margin, pair.differing, why,
        settle,
    )  # fmt: skip
    mine, yours = (
        estimate_of_side(one.metric, one.matched.sides[who.letter], asked.prices.get(who.letter))
        for who in (baseline, one.candidate)
    )
    return Judged(one.matched.label, one.matched.task, block, unit_of(one.metric), comparison, mine, yours)


def _of_drift(found: Difference, level: float) -> Iterator[str]:
    """Yield how much of an interval is no spread of processes, but what a machine may drift between two runs."""
    sides = [side._replace(stays=0.0) for side in (found.baseline, found.candidate)]
    (_, alone), (_, whole) = (one.interval(level) for one in (Difference(0.0, *sides), found._replace(log=0.0)))
    if whole > _MOSTLY_DRIFT * alone > 0.0:
        halves = [quantity(math.expm1(half), "ratio") for half in (alone, whole)]
        yield (
            f"the variation between processes alone gives ±{halves[0]}; drift between runs "
            f"widens it to ±{halves[1]}; `torchstone ab` interleaves and avoids it"
        )
