"""Adaptive search: a Gaussian process around a model of a step, and the probe with the most gain for its cost.

A few short probes of the parts (the loader alone, the device alone) and two of whole steps place the structure of a
step; then probes of whole steps or parts, chosen by the knowledge gradient (Frazier, Powell & Dayanik 2009) for each
second of their predicted cost: expected improvement (Jones, Schonlau & Welch, Efficient global optimization, J. Global
Optim. 13, 1998) made right for noisy readings and points that tell about each other. What has yet to be measured
counts for less by the price of measuring it, as the answer must have been. A point whose predicted peak may pass the
end of memory is never probed. It ends when no probe promises what it costs, or when the budget is spent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import mul
from typing import NamedTuple, TypeVar

from torchstone.core.schema.search import Part, Probe, SearchProblem
from torchstone.plugins.protocols import Searcher
from torchstone.plugins.searchers._ledger import Search
from torchstone.plugins.searchers.adaptive.gp_posterior import Row
from torchstone.plugins.searchers.adaptive.knowledge import Budget, Knowledge

_ROOT_2PI = math.sqrt(2.0 * math.pi)
_ROOT_2 = math.sqrt(2.0)
_PARALLEL = 1e-100  # slopes no further apart than that meet nowhere that a float can tell


def expected_gain(means: Sequence[float], slopes: Sequence[float]) -> float:
    """Return E[max_i (means_i + slopes_i Z)] - max_i means_i for a standard normal Z: how much the best will grow.

    `means` are the present posterior means of the alternatives, `slopes` how far each moves with the reading:
    covariance with it ÷ its standard deviation, noise included. Frazier, Powell & Dayanik, The knowledge-gradient
    policy for correlated normal beliefs, INFORMS J. Computing 21(4), 2009, algorithm 1. With one alternative that can
    be read, it is the expected improvement of Jones, Schonlau & Welch 1998 against the best of the others.
    """
    lines: list[tuple[float, float]] = []  # slope, mean: rising slopes, the highest mean of each slope
    for slope, mean in sorted(zip(slopes, means, strict=True)):
        if lines and slope - lines[-1][0] <= _PARALLEL:
            lines[-1] = (lines[-1][0], max(mean, lines[-1][1]))
        else:
            lines.append((slope, mean))
    hull = [lines[0]]  # the upper envelope over Z from -∞ to ∞
    starts = [-math.inf]
    for slope, mean in lines[1:]:
        while True:
            last_slope, last_mean = hull[-1]
            begins = (last_mean - mean) / (slope - last_slope)
            if begins > starts[-1]:
                break
            hull.pop()
            starts.pop()
        hull.append((slope, mean))
        starts.append(begins)
    gains = (
        (after[0] - before[0]) * _surplus(-abs(begins))
        for before, after, begins in zip(hull, hull[1:], starts[1:], strict=False)
    )
    return sum(gains)


def _surplus(z: float) -> float:
    """Return E[max(Z + z, 0)]."""
    return math.exp(-0.5 * z * z) / _ROOT_2PI + z * 0.5 * math.erfc(-z / _ROOT_2)


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
        (c.number, Part.WHOLE, c.row)
        for c in contenders
        if known.asked[Part.WHOLE, c.number] < REPEATS and known.may(c.number, Part.WHOLE)
    ]
    if not known.brief.separable:
        return found
    for part, of in ((Part.DEVICE, space.device_of), (Part.LOADER, space.loader_of)):
        for key in list(dict.fromkeys(of[c.number] for c in contenders))[:PARTS]:
            number = of.index(key)
            if not known.asked[part, key] and known.may(number, part):
                found.append((number, part, known.belief.row(part, number)))
    return found


Number = TypeVar("Number", int, float)
EFFORT = 0.2
MOST_COMBINATIONS = 4
CLOSE = 1  # one batch short of the middle will do
# Where in the list of batches, at most, and of workers. The loader: without workers and with some at a small batch,
# where handing it over counts; with few and with all at a larger one, where loading an item does, and crowding.
LOADERS = ((0.4, 0.0), (0.4, 0.5), (0.65, 0.2), (0.65, 1.0))
DEVICE_BATCHES = (0.2, 0.5)
WHOLES = ((0.65, 0.0), (0.65, 0.35))
WHOLE_EFFORT = 0.3
FEW = 8  # probes in all, at most: they go to whole steps first, as only what was run whole can be recommended
DEARER = 2.0  # than the smallest batch, at most: a slow loader is known from small batches


def opening(known: Knowledge) -> Iterator[Probe]:
    """Yield the first probes. Each is asked for when the one before has been heard."""
    few = known.brief.most_probes is not None and known.brief.most_probes <= FEW
    return _of_parts(known) if known.brief.separable and not few else _of_wholes(known)


def _of_parts(known: Knowledge) -> Iterator[Probe]:
    """The loader; the device at a small and a middle batch for each combination; both, without and with workers."""
    space = known.space
    for place in LOADERS:
        number = _within(known, Part.LOADER, *place)
        if number is not None:
            yield Probe(space.points[number], Part.LOADER, EFFORT, f"the loader alone{_workers(known, number)}")
    for nth, others in enumerate(space.combinations[:MOST_COMBINATIONS]):
        keys = [n for n, key in enumerate(space.device_keys) if key.others == others]
        yield from _device(known, sorted(keys, key=lambda n: space.device_keys[n].batch), first=nth == 0)
    for place in WHOLES:
        number = _within(known, Part.WHOLE, *place)
        if number is not None:
            yield Probe(space.points[number], Part.WHOLE, WHOLE_EFFORT, f"end to end{_workers(known, number)}")


def _workers(known: Knowledge, number: int) -> str:
    count = known.space.points[number].get("num_workers")
    return f", {count} workers" if count is not None else ""


def _within(known: Knowledge, part: Part, batch_at: float, workers_at: float) -> int | None:
    """Return a point that may be probed: the fastest of the largest batch that is not much dearer than a small one."""
    known.think()
    space = known.space
    most = _at(sorted({key.batch for key in space.loader_keys}), batch_at)
    count = _at(sorted({key.workers for key in space.loader_keys}), workers_at)
    fresh: dict[float, list[int]] = {}
    for number, of in enumerate(space.loader_of):
        key = space.loader_keys[of]
        if key.workers == count and known.may(number, part) and not known.asked[space.key(number, part)]:
            fresh.setdefault(key.batch, []).append(number)
    if not fresh:
        return None
    fastest = {batch: min(numbers, key=known.means.__getitem__) for batch, numbers in fresh.items()}

    def cost_s(batch: float) -> float:
        number = fastest[batch]
        return known.cost_s(number, part, known.mean(number, part), EFFORT)

    cheap = [batch for batch in fresh if batch <= most and cost_s(batch) <= DEARER * cost_s(min(fresh))]
    return fastest[max(cheap, default=min(fresh))]


def _device(known: Knowledge, keys: Sequence[int], *, first: bool) -> Iterator[Probe]:
    """Probe the device at a small and at a middle batch, in steps where memory is not yet known to allow it.

    The small one tells what a launch takes, which is about the same whatever the values of the other axes.
    """
    space = known.space
    small, middle = (int(place * (len(keys) - 1)) for place in DEVICE_BATCHES)
    reached = -1
    for top in (small, middle, middle) if first else (middle, middle):
        open_keys = [n for n in range(top + 1) if known.may(space.device_of.index(keys[n]), Part.DEVICE)]
        fresh = [n for n in open_keys if not known.asked[Part.DEVICE, keys[n]]]
        if not fresh or reached >= middle - CLOSE:
            return
        reached = max(fresh)
        key = space.device_keys[keys[reached]]
        words = ", ".join(str(value) for value in key.others)
        why = f"the device alone, batch {key.batch:g}{', ' + words if words else ''}"
        yield Probe(space.points[space.device_of.index(keys[reached])], Part.DEVICE, EFFORT, why)


def _of_wholes(known: Knowledge) -> Iterator[Probe]:
    """What the user has now; then a small and a middle batch of each combination."""
    space, present = known.space, known.brief.present
    first = [n for n, point in enumerate(space.points) if point == present]
    for place in (0.1, 0.6):
        for others in space.combinations[:MOST_COMBINATIONS]:
            keys = [n for n, d in enumerate(space.device_of) if space.device_keys[d].others == others]
            first.append(_at(sorted(keys, key=lambda n: space.loader_keys[space.loader_of[n]].batch), place))
    for number in dict.fromkeys(first):
        if known.may(number, Part.WHOLE):
            yield Probe(space.points[number], Part.WHOLE, EFFORT, "a first look")


def _at(values: Sequence[Number], place: float) -> Number:
    return values[min(len(values) - 1, int(place * len(values)))]


class Adaptive(Searcher):
    """Learns what loader and device can do, and probes where the best may be."""

    describes = "Gaussian-process search with separate models of loader and device"

    def search(self, brief: SearchProblem) -> Search:
        if not brief.points:
            return []
        known = Knowledge(brief)
        for probe in opening(known):
            if not known.affords(known.mean_cost_s()) or (known.is_late() and known.measured()):
                break
            known.hear((yield probe))
        while (proposed := proposal(known)) is not None:
            known.hear((yield _probe(known, proposed)))
        return known.finalists()


def _probe(known: Knowledge, proposed: Proposal) -> Probe:
    point, part = known.space.points[proposed.number], proposed.part
    if part is Part.LOADER:
        why = f"the loader alone, {point.get('num_workers', 'its')} workers"
    elif part is Part.DEVICE:
        why = f"the device alone, batch {point.get('batch_size', 1)}"
    elif known.asked[part, proposed.number]:
        why = "end to end: once more, to be sure"
    else:
        why = "end to end: near the predicted best"
    return Probe(point, part, proposed.effort, why)


PLUGIN: Searcher = Adaptive()
