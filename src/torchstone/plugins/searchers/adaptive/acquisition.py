"""Which probe to ask for next: the one that is expected to improve the answer most for its cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from torchstone.core.schema.search import Part
from torchstone.core.stats.knowledge_gradient import expected_gain
from torchstone.plugins.searchers.adaptive.knowledge import Budget, Knowledge
from torchstone.plugins.searchers.adaptive.state import Row

EFFORTS = (0.3, 1.0)
IN_A_ROW = (1, 4)  # one reading may be too noisy to tell anything where four tell much (Frazier & Powell 2010, KG(*))
REPEATS = 4  # readings of one point, at most
CONFIRMED = 2  # readings of the answer, at least: the best of many is often best by chance
SURE = 0.0007  # ln: a search ends when knowing any one point exactly promises no more
ENOUGH = 0.00005  # ln: or when no probe promises that much
NEARLY = 0.1  # ln
CLEARLY = 0.01  # ln: better by enough to find out whether it fits
# ln for each share of the cost of everything: what a probe must promise, within the easy budget and beyond it.
PRICES = (0.2, 0.4)
CONTENDERS = 36
ALIKE = 5  # contenders of one device key: what differs by workers alone moves together
DOUBT = 2.0  # standard deviations that a candidate may be better than its posterior mean
PARTS = 8  # device and loader keys of contenders that may be probed alone


class Proposal(NamedTuple):
    """A probe, and what it is expected to gain (ln of the objective)."""

    number: int
    part: Part
    effort: float
    gain: float


class Candidate(NamedTuple):
    """A point that may be the best: its row in the belief, whitened covariances, and posterior variance."""

    number: int
    row: Row
    white: list[float]
    variance: float


class Field(NamedTuple):
    """Of each candidate: its posterior mean (ln), and what measuring it costs: 0 if it was measured."""

    heights: list[float]
    costs_s: list[float]


def proposal(known: Knowledge) -> Proposal | None:
    """Return the next probe, or None where none is worth its cost or the budget is spent."""
    known.think()
    budget = known.budget()
    if budget.left_s <= 0.0 or not known.affords(0.0):
        return None
    points = known.open_points()
    likely = [n for n in points if known.likely(n)]
    if not likely:
        return _elsewhere(known, points, budget.left_s)
    answer = next(iter(known.measured()), None)
    if answer is None:
        return _first(known, likely, budget.left_s)
    found = _climb(known, likely, answer, budget)
    if found is not None:
        return found
    contenders = _contenders(known, likely, answer)
    if _doubt(known, contenders, answer) < SURE:
        sure = known.asked[Part.WHOLE, answer] >= CONFIRMED
        return None if sure else _affordable(known, answer, budget.left_s)
    return _most_telling(known, contenders, budget)


def _elsewhere(known: Knowledge, points: Sequence[int], left_s: float) -> Proposal | None:
    """Where nothing tried is allowed, nor anything like it: the point least like what was tried."""
    space = known.space
    tried = [n for n in range(len(space.points)) if known.asked[Part.WHOLE, n]]

    def apart(a: int, b: int) -> float:
        one, other = space.loader_keys[space.loader_of[a]], space.loader_keys[space.loader_of[b]]
        same = space.device_keys[space.device_of[a]].others == space.device_keys[space.device_of[b]].others
        return abs(one.log_batch - other.log_batch) + abs(one.log_workers - other.log_workers) + (0.0 if same else 0.5)

    fresh = [n for n in points if not known.asked[Part.WHOLE, n] and known.may(n, Part.WHOLE)]
    if not fresh:
        return None
    return _affordable(known, max(fresh, key=lambda n: min((apart(n, t) for t in tried), default=0.0)), left_s)


def _affordable(known: Knowledge, number: int, left_s: float) -> Proposal | None:
    cost_s = known.cost_s(number, Part.WHOLE, known.means[number], EFFORTS[0])
    if cost_s > left_s or not known.affords(cost_s) or not known.may(number, Part.WHOLE):
        return None
    return Proposal(number, Part.WHOLE, EFFORTS[0], 0.0)


def _first(known: Knowledge, numbers: Sequence[int], left_s: float) -> Proposal | None:
    """Return a probe of the cheapest point among those predicted to be nearly the best, where none is measured yet."""
    safe = [n for n in numbers if known.may(n, Part.WHOLE)]
    best = min((known.means[n] for n in safe), default=math.inf)
    near = [n for n in safe if known.means[n] <= best + NEARLY]
    if not near:
        return None
    return _affordable(known, min(near, key=lambda n: known.cost_s(n, Part.WHOLE, known.means[n], EFFORTS[0])), left_s)


def _climb(known: Knowledge, numbers: Sequence[int], answer: int, budget: Budget) -> Proposal | None:
    """Return a step towards the point predicted best, where its memory is not yet known and its gain is large."""
    if not known.brief.separable:
        return None
    best = min(numbers, key=known.means.__getitem__)
    lead, rung = known.means[answer] - known.means[best], known.rung(best)
    if rung is None or lead < CLEARLY:
        return None
    cost_s = known.cost_s(rung, Part.DEVICE, known.mean(rung, Part.DEVICE), EFFORTS[0])
    price = PRICES[cost_s > budget.easy_s] / budget.everything_s
    if cost_s > budget.left_s or not known.affords(cost_s) or lead < price * cost_s:
        return None
    return Proposal(rung, Part.DEVICE, EFFORTS[0], lead)


def _contenders(known: Knowledge, numbers: Sequence[int], answer: int) -> list[Candidate]:
    """Return the points that may be the best: of a high mean, or of one that may turn out high."""
    means, device_of = known.means, known.space.device_of
    order = sorted(numbers, key=means.__getitem__)
    chosen = dict.fromkeys([answer, *order[:CONTENDERS]])
    seen: Counter[int] = Counter()
    for n in order:  # and the two best of each device key, whatever their mean
        seen[device_of[n]] += 1
        if seen[device_of[n]] <= 2 and len(chosen) < 3 * CONTENDERS:
            chosen[n] = None
    found = []
    for n in chosen:
        row = known.belief.row(Part.WHOLE, n)
        white = known.belief.whitened(row)
        found.append(Candidate(n, row, white, _posterior(known, row, white, row, white)))
    found.sort(key=lambda c: means[c.number] - DOUBT * math.sqrt(c.variance))
    seen.clear()
    some = []
    for contender in found:
        device = device_of[contender.number]
        seen[device] += 1
        if seen[device] <= ALIKE:
            some.append(contender)
    chosen_ones = some[:CONTENDERS]
    return chosen_ones + [c for c in found if c.number == answer and c not in chosen_ones]


def _posterior(known: Knowledge, a: Row, a_white: Sequence[float], b: Row, b_white: Sequence[float]) -> float:
    """Return the posterior covariance of two rows; their variance, never below 0, if they are the same."""
    covariance = known.belief.covariance(a, b) - math.fsum(map(mul, a_white, b_white))
    return max(0.0, covariance) if a is b else covariance


def _doubt(known: Knowledge, contenders: Sequence[Candidate], answer: int) -> float:
    """Return what knowing any one contender exactly is expected to gain over the answer as it stands (ln)."""
    row = known.belief.row(Part.WHOLE, answer)
    white = known.belief.whitened(row)
    variance = _posterior(known, row, white, row, white)
    gains = [0.0]
    for c in contenders:
        if c.number != answer:
            both = _posterior(known, c.row, c.white, row, white)
            sd = math.sqrt(max(0.0, c.variance + variance - 2.0 * both))
            lead = known.means[answer] - known.means[c.number]
            gains.append(expected_gain([lead, 0.0], [sd, 0.0]) + max(0.0, lead))
    return max(gains)


def _most_telling(known: Knowledge, contenders: Sequence[Candidate], budget: Budget) -> Proposal | None:
    """Return the probe of the greatest gain for each second of its cost."""
    belief = known.belief
    field = _field(known, contenders)
    drift = belief.whitened_drift()
    best, best_cost_s = None, 1.0
    for number, part, row in _candidates(known, contenders):
        white = [a + b for a, b in zip(belief.whitened(row), drift, strict=True)]
        explained = sum(map(mul, white, white))
        prior = belief.covariance(row, row)
        moves = [-_posterior(known, row, white, c.row, c.white) for c in contenders]
        joins = next((n for n, c in enumerate(contenders) if part is Part.WHOLE and c.number == number), None)
        for effort in EFFORTS:
            window_s = known.window_s(number, part, row.mean, effort)
            for times in IN_A_ROW:
                cost_s = times * known.cost_s(number, part, row.mean, effort)
                if cost_s > budget.left_s or not known.affords(cost_s):
                    continue
                sd = math.sqrt(max(1e-12, prior + belief.reading_variance(window_s, times) - explained))
                price = PRICES[cost_s > budget.easy_s] / budget.everything_s
                gain = _gain(field, [move / sd for move in moves], joins, price, budget.left_s - cost_s)
                if gain >= price * cost_s and (best is None or gain * best_cost_s > best.gain * cost_s):
                    best, best_cost_s = Proposal(number, part, effort, gain), cost_s
    return best if best is not None and best.gain >= ENOUGH else None


def _field(known: Knowledge, contenders: Sequence[Candidate]) -> Field:
    measured = set(known.measured())
    return Field(
        [-known.means[c.number] for c in contenders],
        [
            0.0 if c.number in measured else known.cost_s(c.number, Part.WHOLE, known.means[c.number], EFFORTS[0])
            for c in contenders
        ],
    )


def _gain(field: Field, slopes: Sequence[float], joins: int | None, price: float, left_s: float) -> float:
    """Return what a probe is expected to gain, which moves the contenders so; `joins` is its own point's number.

    The larger of two: the knowledge gradient over all contenders, where what has yet to be measured is worth less by
    the price of that, and nothing if it can then not be paid; and what the answer improves if its own point joins
    those that were measured. The answer must have been measured.
    """
    heights, costs_s = field
    open_ones = [n for n, cost_s in enumerate(costs_s) if n == joins or cost_s <= left_s]
    net = [heights[n] - (0.0 if n == joins else price * costs_s[n]) for n in open_ones]
    gain = expected_gain(net, [slopes[n] for n in open_ones])
    if joins is not None and costs_s[joins] > 0.0:
        own = [n for n, cost_s in enumerate(costs_s) if not cost_s] + [joins]
        before = max(heights[n] for n in own[:-1])
        after = max(before, heights[joins])
        gain = max(gain, expected_gain([heights[n] for n in own], [slopes[n] for n in own]) + after - before)
    return gain


def _candidates(known: Knowledge, contenders: Sequence[Candidate]) -> list[tuple[int, Part, Row]]:
    """Return what may be probed: the contenders end to end, and their parts alone."""
    space = known.space
    found = [
        (c.number, Part.WHOLE, c.row) for c in contenders
        if known.asked[Part.WHOLE, c.number] < REPEATS and known.may(c.number, Part.WHOLE)
    ]  # fmt: skip
    if not known.brief.separable:
        return found
    for part, of in ((Part.DEVICE, space.device_of), (Part.LOADER, space.loader_of)):
        for key in list(dict.fromkeys(of[c.number] for c in contenders))[:PARTS]:
            number = of.index(key)
            if not known.asked[part, key] and known.may(number, part):
                found.append((number, part, known.belief.row(part, number)))
    return found
