"""How a pair of processes takes turns: how many, how long, in which order."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import msgspec

from torchstone.terms.message import Ready, TakeTurn


class TurnPlan(msgspec.Struct, frozen=True):
    """`couples`: turns of each side in a pair of processes. `turn_s`: how long a turn of the slower side should take.

    Short turns see the same machine on both sides, and switch more often: what a switch costs (caches that the other
    side has filled) is the same on both. Turns of whole steps only.
    """

    couples: int = 40
    turn_s: float = 0.01
    shift_bytes: int = 1 << 20  # the heap of each process begins somewhere in so many bytes


def steps_of(plan: TurnPlan, a: Ready, b: Ready) -> int:
    """Return the steps of a turn, the same on both sides; with loaders, whole turns of both, two at least."""
    whole = math.lcm(a.turn, b.turn)
    slower_s = max(a.step_s, b.step_s, 1e-9)
    least = 2 * whole if whole > 1 else 1
    return max(least, math.ceil(plan.turn_s / slower_s / whole) * whole)


def word_for(steps: int, ready: Ready) -> TakeTurn:
    """Return the word for one turn: what lies ready in a loader is used up before the measured steps begin."""
    return TakeTurn(steps, lead_in=ready.queue)


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
