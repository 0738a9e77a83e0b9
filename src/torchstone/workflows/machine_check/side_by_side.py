"""All devices of a machine, each alone and then all at once: what they take from each other, and which is slow.

Pure functions on the rates of bursts. A round is each device alone, in random order, and all at once; rounds are the
replicates, and ratios are formed within a round, so that drift hits both sides.

A device is slow where both hold: its rate, over the median of all devices, is below 1 - bound with the upper end of its
95 % interval (Student's t on logarithms over rounds); and, of four devices or more, its modified z-score is below -3.5
(Iglewicz & Hoaglin 1993, How to Detect and Handle Outliers: 0.6745 × deviation from the median ÷ MAD; median and MAD
are not moved by the slow one itself).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.interval import over_trials

BOUND = 0.05
_OUTLIER = -3.5
_NORMAL = 0.6745  # the quartile of a standard normal: MAD ÷ this is its standard deviation
_FEWEST_FOR_MAD = 4
_FINEST_MAD = 0.002  # of logarithms: equal devices have no spread, and the smallest difference would be an outlier
ALONE, TOGETHER = "alone", "all at once"

Rates = Mapping[str, float]  # kind of work → FLOP/s or bytes/s


class Round(msgspec.Struct, frozen=True):
    """The rates of every device in one round, alone and all at once."""

    alone: tuple[Rates, ...]
    together: tuple[Rates, ...]


class Beside(msgspec.Struct, frozen=True):
    """One device at one kind of work: rates, each over the median of all devices, and all at once over alone."""

    device: str
    name: str
    work: str
    unit: str
    alone: Estimate
    together: Estimate
    of_median_alone: Estimate
    of_median_together: Estimate
    kept: Estimate
    slow: tuple[str, ...]  # when: alone, all at once


class SideBySide(msgspec.Struct, frozen=True):
    """What was found of all devices. `what`: what they are: devices, NUMA nodes, cores."""

    what: str
    devices: tuple[str, ...]
    rounds: int
    bound: float
    rows: tuple[Beside, ...]

    @property
    def slow(self) -> tuple[Beside, ...]:
        """The rows of devices that are slower than the others beyond the bound."""
        return tuple(row for row in self.rows if row.slow)


def judged(what: str, devices: Sequence[tuple[str, str]], rounds: Sequence[Round], bound: float = BOUND) -> SideBySide:
    """Return what the rounds show of these devices (pairs of word and name), in the order of the rates."""
    words = tuple(word for word, _ in devices)
    rows = tuple(_rows(devices, rounds, bound)) if rounds else ()
    return SideBySide(what, words, len(rounds), bound, rows)


def _rows(devices: Sequence[tuple[str, str]], rounds: Sequence[Round], bound: float) -> Iterator[Beside]:
    for work in rounds[0].alone[0]:
        alone = _of_work(rounds, work, together=False)
        together = _of_work(rounds, work, together=True)
        relative = {ALONE: _over_median(alone), TOGETHER: _over_median(together)}
        outlying = {when: _outliers(shares) for when, shares in relative.items()}
        for place, (word, name) in enumerate(devices):
            shares = {when: _estimate(of[place], "ratio") for when, of in relative.items()}
            slow = tuple(
                when for when, share in shares.items()
                if outlying[when][place] and share.high is not None and share.high < 1.0 - bound
            )  # fmt: skip
            kept = [after / before for after, before in zip(together[place], alone[place], strict=True)]
            unit = "FLOP/s" if work == "products" else "bytes/s"
            yield Beside(
                word, name, work, unit, _estimate(alone[place], unit), _estimate(together[place], unit),
                shares[ALONE], shares[TOGETHER], _estimate(kept, "ratio"), slow,
            )  # fmt: skip


def _of_work(rounds: Sequence[Round], work: str, *, together: bool) -> list[list[float]]:
    """Return the rates of each device, a value a round."""
    sides = [one.together if together else one.alone for one in rounds]
    return [[side[place][work] for side in sides] for place in range(len(sides[0]))]


def _over_median(rates: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return each device's rates over the median of all devices in that round; of two, over the other's."""
    if len(rates) == 2:
        return [[own / other for own, other in zip(rates[i], rates[1 - i], strict=True)] for i in range(2)]
    middles = [median(of_round) for of_round in zip(*rates, strict=True)]
    return [[rate / middle for rate, middle in zip(own, middles, strict=True)] for own in rates]


def _outliers(shares: Sequence[Sequence[float]]) -> list[bool]:
    logs = [math.fsum(map(math.log, own)) / len(own) for own in shares]
    if len(logs) < 2:
        return [False]
    if len(logs) < _FEWEST_FOR_MAD:
        return [True] * len(logs)  # too few for a spread: the bound alone decides
    middle = median(logs)
    spread = max(median(abs(one - middle) for one in logs), _FINEST_MAD)
    return [_NORMAL * (one - middle) / spread < _OUTLIER for one in logs]


def _estimate(values: Sequence[float], unit: str) -> Estimate:
    value, low, high, method = over_trials(values)
    return Estimate(value, low, high, 0.95, unit, method, len(values), len(values))
