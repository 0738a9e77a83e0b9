"""One pair: a process of each side, both alive, taking turns. Its value is one number, the replicate of a contest."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.ab.turns import TurnPlan, cores_to_choose, couples_of, most_s, order, steps_of, word_for
from torchstone.extend_machine import Launcher
from torchstone.instrument.clock import system_clock
from torchstone.runner.trial import TrialDrive
from torchstone.runner.watcher import Watcher
from torchstone.stats.trimmed import Location, trimmed
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Case
from torchstone.terms.message import Finish, Ready, TrialRequest, Turns, TurnTaken
from torchstone.terms.procedure import Procedure
from torchstone.terms.trial import Outcome, Status, Trial

_ALIGNMENT_BYTES = 64  # a cache line


class Contender(msgspec.Struct, frozen=True):
    """One side: what it is called, what it computes, and where (a work tree of another revision)."""

    label: str
    case: Case
    folder: Path | None = None


class Pair(msgspec.Struct, frozen=True):
    """What a pair said: the time of an item of B ÷ A, as logarithms, of each couple of turns; and its two trials."""

    logs: tuple[float, ...]
    trials: tuple[Trial, Trial]

    @property
    def location(self) -> Location | None:
        """The pair's own logarithm of the ratio and its error, of the middle half; None where a side failed."""
        return trimmed(self.logs, 0.25) if self.logs else None


class _Side:
    """A process of one side, from its start to its trial."""

    def __init__(self, contender: Contender, launcher: Launcher, drive: TrialDrive, plan: TurnPlan) -> None:
        self._drive = drive
        self._items = items_of(contender.case)
        self._launcher, self._plan = launcher, plan
        self.ready: Ready | None = None
        self.times_s: list[float] = []  # of an item, a turn each

    def warm_up(self) -> bool:
        """Start it and wait until it is warm; False where it ended before."""
        self._drive.start(self._launcher)
        self.ready = self._drive.hear(Ready)
        return self.ready is not None

    def turn(self, steps: int, ready: Ready, cores: tuple[int, ...]) -> bool:
        """Have it take one turn; False where it ended meanwhile."""
        word = word_for(steps, ready, cores)
        self._drive.say(word)
        taken = self._drive.hear(TurnTaken, most_s(self._plan, (steps + word.lead_in) * ready.step_s))
        if taken is None or taken.elapsed_s <= 0.0:
            return False
        self.times_s.append(taken.elapsed_s / (steps * self._items))
        return True

    def finish(self, order: int) -> Trial:
        """Let it go, and return its trial."""
        self._drive.say(Finish())
        return self._drive.conclude(order, most_s(self._plan))

    def abandon(self) -> None:
        """End it at once."""
        self._drive.abandon()


def items_of(case: Case) -> int:
    """Return the items of a step: sides with other batch sizes are compared by the time of an item."""
    return int(case.configuration.get("batch_size") or 1) * int(case.configuration.get("grad_accumulation") or 1)


def take_pair(
    sides: Sequence[tuple[Contender, Launcher]],
    number: int,
    procedure: Procedure,
    plan: TurnPlan,
    dice: random.Random,
    watcher: Watcher,
    about: dict[str, Scalar],
) -> Pair:
    """Start both sides one after the other, in random order, let them take their turns, and end them.

    `about`: further facts for both trials.
    """
    living: dict[int, _Side] = {}
    try:
        first = dice.randrange(2)
        warm = True
        for which in (first, 1 - first):
            contender, launcher = sides[which]
            shift = dice.randrange(0, max(plan.shift_bytes, _ALIGNMENT_BYTES), _ALIGNMENT_BYTES)
            request = TrialRequest(contender.case, procedure, number, turns=Turns(shift))
            living[which] = _Side(contender, launcher, TrialDrive(request, None, watcher), plan)
            warm = living[which].warm_up()
            if not warm:
                break
        cores = cores_to_choose(sides[0][0].case, sides[1][0].case) if plan.bind else ((), 0)
        logs = _turns(living[0], living[1], plan, dice, *cores) if warm else []
        trials = {which: side.finish(2 * number + which) for which, side in living.items()}
    except BaseException:
        for side in living.values():
            side.abandon()
        raise
    made = tuple(
        _told(trials.get(which) or _unstarted(sides[which][0], number), "AB"[which], number, about) for which in (0, 1)
    )
    return Pair(tuple(logs), (made[0], made[1]))


def _turns(a: _Side, b: _Side, plan: TurnPlan, dice: random.Random, ours: Sequence[int], needed: int) -> list[float]:
    if a.ready is None or b.ready is None:
        return []
    steps = steps_of(plan, a.ready, b.ready)
    couples = couples_of(plan, steps, a.ready, b.ready)
    until_s = system_clock() + most_s(plan, couples * steps * (a.ready.step_s + b.ready.step_s))
    for a_first in order(couples, dice):
        one, other = (a, b) if a_first else (b, a)
        ready = (a.ready, b.ready) if a_first else (b.ready, a.ready)
        cores = tuple(dice.sample(ours, needed))
        if not one.turn(steps, ready[0], cores) or not other.turn(steps, ready[1], cores):
            break
        if system_clock() >= until_s:  # every turn crawls: what was taken has to do
            break
    return [math.log(its / a_s) for its, a_s in zip(b.times_s, a.times_s, strict=False)]


def _unstarted(contender: Contender, number: int) -> Trial:
    outcome = Outcome(Status.SKIPPED, "not started: the other side of its pair did not get ready")
    return Trial(f"skipped-{number}", contender.case.case_id, number, number, "", 0.0, outcome)


def _told(trial: Trial, side: str, number: int, about: dict[str, Scalar]) -> Trial:
    return msgspec.structs.replace(trial, facts={**trial.facts, "side": side, "pair": number, **about})
