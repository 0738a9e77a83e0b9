"""One pair: a process of each side, both alive, taking turns. Its value, one number, is an experiment's replicate."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.message import Begin, Finish, Ready, TurnEnded, TurnsRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Disturbance, Disturber, Reason, Status, Trial, ended
from torchstone.core.stats.disturbance import TOLERATED_CORES
from torchstone.core.stats.nested import Location, trimmed, trimmed_mean
from torchstone.execution.controller.busy_machine import Snapshot, busiest, cores_of_others, snapshot
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session, isolation, room_of, with_room
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.machine_protocols import Launcher
from torchstone.workflows.ab.interleaving import Go, TurnPlan, Warm, cores_to_choose, go, most_s, order, warm, word_for


def is_stopped(case: Case, procedure: Procedure) -> bool:
    """Say whether a side that waits is stopped: on the CPU, where the kernel ends what was stopped with its parent.

    A fork asks the kernel for that (execution/worker/template.py), and so do the hooks of a program; a spawned process
    notices by itself that nobody is left, which one that is stopped could not.
    """
    asks = sys.platform == "linux" and isolation(procedure.isolation) in ("fork", "program")
    return asks and case.placement.device == "cpu"


def stop(pid: int) -> None:
    """Stop a trial and all that it started. One that has ended meanwhile is left alone."""
    _send(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Let what was stopped go on."""
    _send(pid, signal.SIGCONT)


def _send(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, what)


_ALIGNMENT_BYTES = 64  # a cache line
_KNOWN = 8  # couples, from which on their spread tells how well their middle is known


class Variant(msgspec.Struct, frozen=True):
    """One side: what it is called, what it computes, and where (a work tree of another revision, a device)."""

    label: str
    case: Case
    folder: Path | None = None
    device: DeviceInfo | None = None


class Spans(msgspec.Struct, frozen=True):
    """Where the time of a pair went: until both sides were warm, their turns, of that measured, and until they ended.

    The rest of the turns are steps before those that are measured, and the way of words and answers.
    """

    warm_s: float = 0.0
    turns_s: float = 0.0
    measured_s: float = 0.0
    end_s: float = 0.0


class Pair(msgspec.Struct, frozen=True):
    """What a pair said: the time of an item of B ÷ A, as logarithms, of each couple of turns; and its two trials."""

    logs: tuple[float, ...]
    trials: tuple[Trial, Trial]
    spans: Spans = Spans()

    @property
    def location(self) -> Location | None:
        """The pair's own logarithm of the ratio and its error; None where a side failed."""
        return location_of(self.logs)


def location_of(logs: Sequence[float]) -> Location | None:
    """Return the mean of the middle half of the couples of a pair, and its error; None where there is no couple.

    The error of fewer than 8 couples is 0, as a spread of so few tells nothing: see SequentialTest.add.
    """
    if not logs:
        return None
    found = trimmed(logs, 0.25) if len(logs) >= _KNOWN else None
    return found or Location(trimmed_mean(logs, 0.25), 0.0, 1.0)


class _SideProcess:
    """A process of one side, from its start to its trial. `stops`: while it waits (`stop`)."""

    def __init__(
        self, contender: Variant, launcher: Launcher, drive: TrialDrive, plan: TurnPlan, *, stops: bool
    ) -> None:
        self._drive, self._stops = drive, stops
        self._items = items_of(contender.case)
        self._launcher, self._plan = launcher, plan
        self.ready: Ready | None = None
        self.times_s: list[float] = []  # of an item, a turn each
        self.measured_s = 0.0

    def start(self) -> None:
        """Start it."""
        self._drive.start(self._launcher)

    def begin(self) -> None:
        """Have a program that waits for that build, and warm up."""
        self._drive.say(Begin())

    def warm_up(self) -> bool:
        """Wait until it is warm; False where it ended before."""
        # A new interpreter in place of a fork: nobody would end it if it were stopped and we were gone (`is_stopped`).
        self._stops = self._stops and self._drive.facts.not_forked is None
        by_s = self._plan.ready_by_s
        self.ready = self._drive.hear(Ready, max(0.05, by_s - system_clock()) if by_s is not None else None)
        if self._stops and self.ready is not None:
            stop(self._drive.pid)
        return self.ready is not None

    def turn(self, steps: int, ready: Ready, cores: tuple[int, ...]) -> bool:
        """Have it take one turn; False where it ended meanwhile."""
        word = word_for(steps, ready, cores)
        if self._stops:
            go_on(self._drive.pid)
        self._drive.say(word)
        taken = self._drive.hear(TurnEnded, most_s(self._plan, (steps + word.lead_in) * ready.step_s))
        if self._stops and taken is not None:
            stop(self._drive.pid)
        if taken is None or taken.elapsed_s <= 0.0:
            return False
        self.times_s.append(taken.elapsed_s / (steps * self._items))
        self.measured_s += taken.elapsed_s
        return True

    def let_go(self) -> None:
        """Tell it that there are no further turns."""
        if self._stops and self.ready is not None:
            go_on(self._drive.pid)
        self._drive.say(Finish())

    def finish(self, order: int) -> Trial:
        """Return its trial, when it has ended."""
        return self._drive.conclude(order, most_s(self._plan))

    def abandon(self) -> None:
        """End it at once."""
        self._drive.abandon()


def items_of(case: Case) -> int:
    """Return the items of a step: sides with other batch sizes are compared by the time of an item."""
    return int(case.configuration.get("batch_size") or 1) * int(case.configuration.get("grad_accumulation") or 1)


def shift_of(trials: Sequence[Trial | None]) -> float:
    """Return what to add to the logarithms of a pair of programs, whose steps have as many items as they turn out to.

    0 where that is not known of both.
    """
    a, b = (trial.facts.items_per_step if trial is not None else None for trial in trials)
    return math.log(a / b) if isinstance(a, int | float) and isinstance(b, int | float) and a > 0 < b else 0.0


def take_pair(
    sides: Sequence[tuple[Variant, Launcher]],
    number: int,
    procedure: Procedure,
    plan: TurnPlan,
    dice: random.Random,
    watcher: Watcher,
    about: Facts,
) -> Pair:
    """Start both sides one after the other, in random order, let them take their turns, and end them.

    Programs start beside one another, as they import for seconds, and build one after the other. `about`: further
    facts for both trials.
    """

    def started(which: int) -> _SideProcess:
        contender, launcher = sides[which]
        shift = dice.randrange(0, max(plan.shift_bytes, _ALIGNMENT_BYTES), _ALIGNMENT_BYTES)
        request = TurnsRequest(contender.case, procedure, number, shift)
        drive, stops = TrialDrive(request, None, watcher), is_stopped(contender.case, procedure)
        side = _SideProcess(contender, launcher, drive, plan, stops=stops)
        side.start()
        return side

    living: dict[int, _SideProcess] = {}
    before = snapshot() if procedure.disturbed == "replace" else {}
    room: Room | None = None  # what the first leaves the second
    began_s = system_clock()
    try:
        first = dice.randrange(2)
        are_warm = True
        in_order = (first, 1 - first)
        for which in in_order if procedure.isolation == "program" else ():
            living[which] = started(which)
        for which in in_order:
            if which in living:
                living[which].begin()
            else:
                room = room_of(sides[which][0].device) if living else None
                living[which] = started(which)
            are_warm = living[which].warm_up()
            if not are_warm:
                if which == first and len(living) == 2:
                    living.pop(1 - first).abandon()  # it has built nothing yet
                break
        warm_s = system_clock() - began_s
        cores = cores_to_choose(sides[0][0].case, sides[1][0].case) if plan.bind else ((), 0)
        logs = _Taking(living[0], living[1], plan, dice, number).turns(warm_s, *cores) if are_warm else []
        ends_s = system_clock()
        for side in living.values():
            side.let_go()
        trials = {which: side.finish(2 * number + which) for which, side in living.items()}
    except BaseException:
        for side in living.values():
            side.abandon()
        raise
    apart = shift_of([trials.get(which) for which in (0, 1)])
    logs = [log + apart for log in logs]
    disturbance = _disturbance(before, system_clock() - began_s) if before else None
    measured_s = sum(side.measured_s for side in living.values())
    spans = Spans(warm_s, ends_s - began_s - warm_s, measured_s, system_clock() - ends_s)
    each = {f"pair_{name}": round(value, 6) for name, value in msgspec.structs.asdict(spans).items()}
    about = merged(about, Facts(pair=number, **each))
    made = tuple(
        _with_facts(trials.get(which) or _unstarted(sides[which][0], number), "AB"[which], about, room)
        for which in (0, 1)
    )
    made = tuple(msgspec.structs.replace(trial, disturbance=disturbance) for trial in made)
    return Pair(tuple(logs), (made[0], made[1]), spans)


class _Taking:
    """The turns of one pair."""

    def __init__(self, a: _SideProcess, b: _SideProcess, plan: TurnPlan, dice: random.Random, number: int) -> None:
        self._a, self._b, self._plan, self._dice, self._number = a, b, plan, dice, number

    def turns(self, warm_s: float, ours: Sequence[int], needed: int) -> list[float]:
        """Take them, and return the logarithms of B ÷ A."""
        a, b = self._a, self._b
        if a.ready is None or b.ready is None:
            return []
        known = warm(self._plan, a.ready, b.ready, warm_s)
        planned = go(self._plan, known)
        until_s = self._until_s(planned, known)
        for taken, a_first in enumerate(order(self._dice, self._number)):
            if taken >= planned.couples or (taken and system_clock() >= until_s):  # enough, or it crawls
                break
            cores = tuple(self._dice.sample(ours, needed))
            began_s = system_clock()
            if not self._couple(a_first, planned.steps, cores):
                break
            if taken == 0 and self._plan.decide is not None:
                couple_s = system_clock() - began_s
                step_s = couple_s / (planned.steps + known.lead_in)
                known = msgspec.structs.replace(known, step_s=step_s, spent_s=warm_s + couple_s)
                planned = msgspec.structs.replace(go(self._plan, known), steps=planned.steps)
                until_s = self._until_s(planned, known)
        return [math.log(b_s / a_s) for b_s, a_s in zip(self._b.times_s, self._a.times_s, strict=False)]

    def _couple(self, a_first: bool, steps: int, cores: tuple[int, ...]) -> bool:
        one, other = (self._a, self._b) if a_first else (self._b, self._a)
        if one.ready is None or other.ready is None:
            return False
        return one.turn(steps, one.ready, cores) and other.turn(steps, other.ready, cores)

    def _until_s(self, planned: Go, known: Warm) -> float:
        patience_s = system_clock() + most_s(self._plan, planned.couples * known.couple_s(planned.steps))
        return patience_s if planned.until_s is None else min(patience_s, planned.until_s)


def _disturbance(before: Snapshot, elapsed_s: float) -> Disturbance:
    """Return what other programs did while a pair lived.

    Its turns alternate within tenths of a second, so that both sides meet it alike and the comparison keeps the pair;
    how fast each side is for itself it does not tell.
    """
    after = snapshot()
    cores = cores_of_others(before, after, elapsed_s)
    if cores <= TOLERATED_CORES:
        return Disturbance(disturbed=False, share=0.0, cores=cores)
    named = busiest(before, after, elapsed_s)
    return Disturbance(disturbed=True, share=1.0, causes=(Disturber.PROCESSES,), cores=cores, processes=named)


def _unstarted(contender: Variant, number: int) -> Trial:
    outcome = ended(Status.SKIPPED, Reason.OTHER_SIDE)
    return Trial(f"skipped-{number}", contender.case.case_id, number, number, "", 0.0, outcome)


def _with_facts(trial: Trial, side: str, about: Facts, room: Room | None) -> Trial:
    facts = merged(trial.facts, about, Facts(side=side))
    return msgspec.structs.replace(trial, facts=facts, outcome=with_room(trial.outcome, room))


class SessionPool:
    """Use as a context manager. `models`: what each folder's template imports for; None: where the controller works."""

    def __init__(
        self,
        models: Mapping[Path | None, Sequence[str]],
        procedure: Procedure,
        watcher: Watcher | None = None,
    ) -> None:
        self._watcher = watcher or Silent()
        self._procedure = procedure
        self._sessions = {folder: Session(procedure, names, self._watcher, folder) for folder, names in models.items()}
        self._open = ExitStack()
        self._fresh = procedure.isolation != "program"  # of a program nobody knows yet whether it can be forked

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for session in self._sessions.values():  # they import beside one another: nothing is measured meanwhile
                stack.callback(session.launcher.close)
                session.begin()
            for session in self._sessions.values():
                stack.enter_context(session)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def start_s(self) -> float:
        """What a renewal costs: as long as it took to open, or last time."""
        return max(session.renewal_s for session in self._sessions.values())

    def session(self, folder: Path | None) -> Session:
        """Return the session of a folder."""
        return self._sessions[folder]

    def renew(self) -> None:
        """Start new templates, unless those there are have forked no pair yet."""
        if not self._fresh:
            for session in self._sessions.values():
                session.begin()
            for session in self._sessions.values():
                session.renew()
        self._fresh = True

    def take(self, sides: Sequence[Variant], number: int, plan: TurnPlan, dice: random.Random, template: int) -> Pair:
        """Take one pair."""
        self._fresh = False
        placed = [(side, self._sessions[side.folder].launcher) for side in sides]
        return take_pair(placed, number, self._procedure, plan, dice, self._watcher, Facts(template=template))
