"""How a pair of processes takes turns: how many, how long, in which order."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.message import Ready, TakeTurn

_UNPLANNED_S = 1.0  # of turns in a pair that nobody plans
_SLOWER = 10.0  # than its own warm-up told: neighbours alone make no step so slow for long
_TURN_S = 0.01
# On an accelerator, which changes context and refills its caches when the other side's turn is over, and lowers its
# clock while nobody has one. Not measured on one yet.
_TURN_ON_DEVICE_S = 0.2


class Warm(msgspec.Struct, frozen=True):
    """What is known of a pair when both sides are warm, `warm_s` after it began, and `spent_s` after it began.

    `steps` of a turn: as many as it should have, and as few as it may; `step_s`: a step of both sides, one after the
    other; `lead_in`: steps of each side before those of a turn.
    """

    steps: int
    least_steps: int
    step_s: float
    lead_in: int
    warm_s: float
    spent_s: float

    def couple_s(self, steps: int) -> float:
        """Return what a couple of turns of so many steps takes."""
        return max(1e-6, (steps + self.lead_in) * self.step_s)


class Go(msgspec.Struct, frozen=True):
    """Take so many couples of turns of so many steps; begin none after `until_s` of the clock (None: see patience)."""

    couples: int
    steps: int
    until_s: float | None = None


class TurnPlan(msgspec.Struct, frozen=True):
    """`couples`: turns of each side in a pair of processes; None: about a second of them.

    `decide`: is asked instead when both sides are warm, and again after their first couple, whose times are what steps
    really take. `ready_by_s`: of the clock: who is not warm by then is not waited for; None: the Procedure's timeout.
    `turn_s`: how long a turn of the slower side should take.

    Short turns see the same machine on both sides, and switch more often: what a switch costs (caches that the other
    side has filled) is the same on both. Turns of whole steps only.
    """

    couples: int | None = None
    turn_s: float = _TURN_S
    shift_bytes: int = 1 << 20  # the heap of each process begins somewhere in so many bytes
    bind: bool = True  # both turns of a couple on the same cores, where the sides need fewer than there are
    patience_s: float = 60.0  # most time of a turn, unless it should take a tenth of that anyway
    decide: Callable[[Warm], Go] | None = None
    ready_by_s: float | None = None


def turn_s_of(cases: Sequence[Case]) -> float:
    """Return how long a turn of these sides should take, in seconds."""
    return _TURN_S if all(case.placement.device == "cpu" for case in cases) else _TURN_ON_DEVICE_S


def warm(plan: TurnPlan, a: Ready, b: Ready, warm_s: float) -> Warm:
    """Return what both sides have told. Turns have the same steps on both; with loaders, whole turns of both, two."""
    whole = math.lcm(a.turn, b.turn)
    slower_s = max(a.step_s, b.step_s, 1e-9)
    usual = max(2 * whole if whole > 1 else 1, math.ceil(plan.turn_s / slower_s / whole) * whole)
    return Warm(usual, whole, a.step_s + b.step_s, max(a.queue, b.queue), warm_s, warm_s)


def go(plan: TurnPlan, warm: Warm) -> Go:
    """Return the turns of a pair, by who decides them, by the plan, or by what a turn will take."""
    if plan.decide is not None:
        return plan.decide(warm)
    unplanned = 2 * round(_UNPLANNED_S / warm.couple_s(warm.steps) / 2.0)
    return Go(plan.couples or max(8, min(128, unplanned)), warm.steps)


def most_s(plan: TurnPlan, expected_s: float = 0.0) -> float:
    """Return the most time for what should take `expected_s`: whoever has warmed up and takes longer hangs."""
    return max(plan.patience_s, _SLOWER * expected_s)


def word_for(steps: int, ready: Ready, cores: tuple[int, ...] = ()) -> TakeTurn:
    """Return the word for one turn: what a loader made ready meanwhile is used up before the measured steps begin."""
    return TakeTurn(steps, lead_in=ready.queue, cores=cores)


def cores_to_choose(a: Case, b: Case) -> tuple[Sequence[int], int]:
    """Return the logical cores that are ours, and how many of them a couple is given; (…, 0): all, without binding.

    A process tends to stay on the core where it is. Of two that use one core each, one may sit beside a busy neighbour
    for the whole of a pair, and the other not: the largest random difference on a shared machine. So both turns of
    a couple are taken on the same cores, drawn again for each couple. Where a loader's processes or torch's pool need
    every core, or the sides need different numbers, there is nothing to choose.
    """
    threads = {int(case.configuration.get("threads") or 0) for case in (a, b)}
    loaders = any(case.configuration.get("feed") == "loader" for case in (a, b))
    if not hasattr(os, "sched_getaffinity") or not Path("/proc/self/task").is_dir() or len(threads) > 1 or loaders:
        return (), 0
    ours, needed = sorted(os.sched_getaffinity(0)), threads.pop()
    return (ours, needed) if 0 < needed < len(ours) and a.placement.device == "cpu" else ((), 0)


def order(dice: random.Random, number: int = 0) -> Iterator[bool]:
    """Yield, couple by couple and without end, whether A goes first: each order equally often, at random in twos.

    What drifts linearly cancels in two couples of opposite order (ABBA); that the first of them is drawn keeps any
    rhythm of the machine from falling in step (Fisher, The Design of Experiments, 1935). The first couple of a pair
    has the opposite order of that in the pair beside it (`number` 0 and 1, 2 and 3, …): it may be the only one.
    """
    first = (random.Random(number // 2).random() < 0.5) == (number % 2 == 0)
    while True:
        yield first
        yield not first
        first = dice.random() < 0.5
