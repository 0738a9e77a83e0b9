"""How a pair of processes takes turns: how many, how long, in which order."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.terms.case import Case
from torchstone.terms.message import Ready, TakeTurn

FEWEST_COUPLES, MOST_COUPLES = 8, 128
_UNPLANNED_S = 1.0  # of turns in a pair, while nothing is known of its spread
_SLOWER = 10.0  # than its own warm-up told: neighbours alone make no step so slow for long


class TurnPlan(msgspec.Struct, frozen=True):
    """`couples`: turns of each side in a pair of processes; None: about a second of them.

    `turn_s`: how long a turn of the slower side should take.

    Short turns see the same machine on both sides, and switch more often: what a switch costs (caches that the other
    side has filled) is the same on both. Turns of whole steps only.
    """

    couples: int | None = None
    turn_s: float = 0.01
    shift_bytes: int = 1 << 20  # the heap of each process begins somewhere in so many bytes
    bind: bool = True  # both turns of a couple on the same cores, where the sides need fewer than there are
    patience_s: float = 60.0  # most time of a turn, unless it should take a tenth of that anyway


def steps_of(plan: TurnPlan, a: Ready, b: Ready) -> int:
    """Return the steps of a turn, the same on both sides; with loaders, whole turns of both, two at least."""
    whole = math.lcm(a.turn, b.turn)
    slower_s = max(a.step_s, b.step_s, 1e-9)
    least = 2 * whole if whole > 1 else 1
    return max(least, math.ceil(plan.turn_s / slower_s / whole) * whole)


def couples_of(plan: TurnPlan, steps: int, a: Ready, b: Ready) -> int:
    """Return the couples of turns of a pair, by the plan or by what a turn will take."""
    return plan.couples or within_bounds(_UNPLANNED_S / max(steps * (a.step_s + b.step_s), 1e-6))


def most_s(plan: TurnPlan, expected_s: float = 0.0) -> float:
    """Return the most time for what should take `expected_s`: whoever has warmed up and takes longer hangs."""
    return max(plan.patience_s, _SLOWER * expected_s)


def within_bounds(couples: float) -> int:
    """Return an even number of couples that is neither too few for a spread nor more than a pair is worth."""
    return max(FEWEST_COUPLES, min(MOST_COUPLES, 2 * round(couples / 2.0)))


def word_for(steps: int, ready: Ready, cores: tuple[int, ...] = ()) -> TakeTurn:
    """Return the word for one turn: what a loader made ready meanwhile is used up before the measured steps begin."""
    return TakeTurn(steps, lead_in=ready.queue, cores=cores)


def cores_to_choose(a: Case, b: Case) -> tuple[Sequence[int], int]:
    """Return the logical cores that are ours, and how many of them a couple is given; (…, 0): all, without binding.

    A process tends to stay on the core where it is. Of two that use one core each, one may sit beside a busy neighbour
    for the whole of a pair, and the other not: the largest luck of all on a machine that is shared. So both turns of
    a couple are taken on the same cores, drawn anew for each couple. Where a loader's processes or torch's pool need
    every core, or the sides need different numbers, there is nothing to choose.
    """
    threads = {int(case.configuration.get("threads") or 0) for case in (a, b)}
    loaders = any(case.configuration.get("feed") == "loader" for case in (a, b))
    if not hasattr(os, "sched_getaffinity") or not Path("/proc/self/task").is_dir() or len(threads) > 1 or loaders:
        return (), 0
    ours, needed = sorted(os.sched_getaffinity(0)), threads.pop()
    return (ours, needed) if 0 < needed < len(ours) and a.placement.device == "cpu" else ((), 0)


def order(couples: int, dice: random.Random) -> Iterator[bool]:
    """Yield, couple by couple, whether A goes first: each order equally often, at random within blocks of two.

    What drifts linearly cancels in two couples of opposite order (ABBA); that the first of them is drawn keeps any
    rhythm of the machine from falling in step (Fisher, The Design of Experiments, 1935).
    """
    first = dice.random() < 0.5
    for number in range(couples):
        if number % 2 == 0:
            first = dice.random() < 0.5
        yield first if number % 2 == 0 else not first
