"""Which probe to ask for next: the one that is expected to improve the answer most for its cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from torchstone.searchers._belief import Row
from torchstone.searchers._knowledge import Knowledge
from torchstone.stats.knowledge_gradient import expected_gain
from torchstone.terms.search import Part

EFFORTS = (0.3, 1.0)
IN_A_ROW = (1, 4)  # one reading may be too noisy to tell anything where four tell much (Frazier & Powell 2010, KG(*))
REPEATS = 4  # readings of one point, at most
CONFIRMED = 2  # readings of the answer, at least: the best of many is often the luckiest
SURE = 0.003  # ln: a search ends when knowing any one point exactly promises no more
ENOUGH = 0.00005  # ln: or when no probe promises that much
CLEARLY = 0.005  # ln: believed to be better, rather than as good
CONTENDERS = 36
ALIKE = 5  # contenders of one device key: what differs by workers alone moves together
DOUBT = 2.0  # standard deviations that a contender may be better than believed
PARTS = 8  # device and loader keys of contenders that may be probed alone


class Proposal(NamedTuple):
    """A probe, and what it is expected to gain (ln of the objective)."""

    number: int
    part: Part
    effort: float
    gain: float


class Contender(NamedTuple):
    """A point that may be the best: its row in the belief, whitened covariances, and posterior variance."""

    number: int
    row: Row
    white: list[float]
    variance: float


def proposal(known: Knowledge) -> Proposal | None:
    """Return the next probe, or None where none is worth its cost or the budget is spent."""
    known.think()
    left_s = known.left_s()
    if left_s <= 0.0 or not known.affords(0.0):
        return None
    points = known.open_points()
    likely = [n for n in points if known.likely(n)]
    if not likely:
        return _elsewhere(known, points, left_s)
    found = _unmeasured_best(known, likely, left_s)
    if found is not None:
        return found
    contenders = _contenders(known, likely)
    answer = next(iter(known.measured()), None)
    if answer is not None and _doubt(known, contenders, answer) < SURE:
        sure = known.asked[Part.WHOLE, answer] >= CONFIRMED
        return None if sure else _affordable(known, answer, left_s)
    return _most_telling(known, contenders, left_s)


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


def _unmeasured_best(known: Knowledge, numbers: Sequence[int], left_s: float) -> Proposal | None:
    """Return a probe of a point believed to beat all measured ones clearly: the answer must have been measured.

    Of those that are believed to be almost as good, it is the cheapest.
    """
    means = known.means
    safe = [n for n in numbers if known.may(n, Part.WHOLE)]
    measured = min((means[n] for n in safe if known.asked[Part.WHOLE, n]), default=math.inf)
    best = min((means[n] for n in safe), default=math.inf)
    if best >= measured - CLEARLY:
        return None
    near = [n for n in safe if means[n] <= min(best + CLEARLY, measured - CLEARLY / 2.0)]
    cheapest = min(near, key=lambda n: known.cost_s(n, Part.WHOLE, means[n], EFFORTS[0]))
    found = _affordable(known, cheapest, left_s)
    return None if found is None else found._replace(gain=min(measured - best, 1.0))


def _contenders(known: Knowledge, numbers: Sequence[int]) -> list[Contender]:
    """Return the points that may be the best: of a high mean, or of one that may turn out high."""
    means, device_of = known.means, known.space.device_of
    order = sorted(numbers, key=means.__getitem__)
    chosen = dict.fromkeys(order[:CONTENDERS])
    seen: Counter[int] = Counter()
    for n in order:  # and the two best of each device key, whatever their mean
        seen[device_of[n]] += 1
        if seen[device_of[n]] <= 2 and len(chosen) < 3 * CONTENDERS:
            chosen[n] = None
    found = []
    for n in chosen:
        row = known.belief.row(Part.WHOLE, n)
        white = known.belief.whitened(row)
        found.append(Contender(n, row, white, _posterior(known, row, white, row, white)))
    found.sort(key=lambda c: means[c.number] - DOUBT * math.sqrt(c.variance))
    seen.clear()
    some = []
    for contender in found:
        device = device_of[contender.number]
        seen[device] += 1
        if seen[device] <= ALIKE:
            some.append(contender)
    return some[:CONTENDERS]


def _posterior(known: Knowledge, a: Row, a_white: Sequence[float], b: Row, b_white: Sequence[float]) -> float:
    """Return the posterior covariance of two rows; their variance, never below 0, if they are the same."""
    covariance = known.belief.covariance(a, b) - math.fsum(map(mul, a_white, b_white))
    return max(0.0, covariance) if a is b else covariance


def _doubt(known: Knowledge, contenders: Sequence[Contender], answer: int) -> float:
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


def _most_telling(known: Knowledge, contenders: Sequence[Contender], left_s: float) -> Proposal | None:
    """Return the probe of the greatest knowledge gradient for each second of its cost."""
    belief = known.belief
    heights = [-known.means[c.number] for c in contenders]
    drift = belief.whitened_drift()
    best, best_cost_s = None, 1.0
    for number, part, row in _candidates(known, contenders):
        white = [a + b for a, b in zip(belief.whitened(row), drift, strict=True)]
        explained = sum(map(mul, white, white))
        prior = belief.covariance(row, row)
        moves = [-_posterior(known, row, white, c.row, c.white) for c in contenders]
        for effort in EFFORTS:
            for times in IN_A_ROW:
                cost_s = times * known.cost_s(number, part, row.mean, effort)
                if cost_s > left_s or not known.affords(cost_s):
                    continue
                sd = math.sqrt(max(1e-12, prior + belief.reading_variance(effort, times) - explained))
                gain = expected_gain(heights, [move / sd for move in moves])
                if best is None or gain * best_cost_s > best.gain * cost_s:
                    best, best_cost_s = Proposal(number, part, effort, gain), cost_s
    return best if best is not None and best.gain >= ENOUGH else None


def _candidates(known: Knowledge, contenders: Sequence[Contender]) -> list[tuple[int, Part, Row]]:
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
