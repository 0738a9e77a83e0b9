"""Measures every device of this machine alone and all at once, a process each. The controller never imports torch."""

from __future__ import annotations

import contextlib
import os
import random
import select
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from torchstone.core.cores import cores_of, text_of
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Burst, BurstDone, BurstRequest, Ended, Entered, Event, Finish
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.execution.controller.device_lock import WhenBusy, held
from torchstone.execution.controller.session import Session
from torchstone.execution.locality import SYS, nodes
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins.machine_protocols import LiveTrial
from torchstone.workflows.machine_check.side_by_side import BOUND, Rates, Round, SideBySide, judged

ROUNDS, BURST_S = 5, 0.3
_KINDS_OF_WORK = 3
_START_S, _ANSWER_S = 120.0, 60.0  # most time until a process is ready, and beyond a burst until it answers
_MOST_GROUPS = 16
_E = TypeVar("_E", bound=Event)


class Unit(msgspec.Struct, frozen=True):
    """What is taken for one device: a placement, on some cores (none: all)."""

    word: str
    name: str
    placement: Placement
    cores: tuple[int, ...] = ()


class Bursting(Protocol):
    """What keeps devices busy."""

    def burst(self, places: Sequence[int]) -> Sequence[Rates]:
        """Keep these devices busy at the same time; return the rates of each, in the order of `places`."""


def units_of(machine: Machine, sys: Path = SYS, ours: frozenset[int] | None = None) -> tuple[str, list[Unit]]:
    """Return what stands for devices here, in a word: the accelerators; else the NUMA nodes; else the CPU's cores."""
    cards = [device for device in machine.devices if device.kind != "cpu"]
    if cards:
        return "devices", [Unit(f"{d.kind}:{d.index}", d.name, Placement(d.kind, d.index)) for d in cards]
    allowed = ours if ours is not None else frozenset(getattr(os, "sched_getaffinity", lambda _: ())(0))
    cpu, name = Placement("cpu"), machine.host.processor or "CPU"
    there = {node: tuple(c for c in cores if c in allowed) for node, cores in nodes(sys).items()}
    there = {node: cores for node, cores in there.items() if cores}
    if len(there) > 1:
        return "NUMA nodes", [Unit(f"node:{node}", name, cpu, cores) for node, cores in there.items()]
    groups = _groups(_physical(sys, allowed))
    return "cores", [Unit(f"core {text_of(cores)}", name, cpu, cores) for cores in groups] or [Unit("cpu", name, cpu)]


def _physical(sys: Path, allowed: frozenset[int]) -> list[int]:
    """Return one logical core of each physical one."""
    found: dict[tuple[int, ...], int] = {}
    for core in sorted(allowed):
        path = sys / f"devices/system/cpu/cpu{core}/topology/thread_siblings_list"
        try:
            siblings = cores_of(path.read_text(encoding="ascii", errors="replace").strip())
        except (OSError, TorchstoneError):  # another system, or a container that hides it
            siblings = (core,)
        found.setdefault(siblings, core)
    return list(found.values())


def _groups(cores: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the cores one by one; of many, in so many groups of neighbours."""
    if len(cores) <= _MOST_GROUPS:
        return [(core,) for core in cores]
    ends = [round(place * len(cores) / _MOST_GROUPS) for place in range(_MOST_GROUPS + 1)]
    return [tuple(cores[begin:end]) for begin, end in pairwise(ends)]


def rounds_of(bursting: Bursting, count: int, rounds: int, tell: Callable[[str], None], seed: int = 0) -> list[Round]:
    """Return rounds of each of `count` devices alone, in random order, and all at once."""
    dice, found = random.Random(seed), []
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        turns = [*((place,) for place in range(count)), tuple(range(count))]
        order = list(range(len(turns)))
        dice.shuffle(order)
        rates = {turn: bursting.burst(turns[turn]) for turn in order}
        found.append(Round(tuple(rates[place][0] for place in range(count)), tuple(rates[count])))
    return found


def examine_all(*, bound: float = BOUND, tell: Callable[[str], None]) -> SideBySide:
    """Measure all devices here. Raises TorchstoneError where one does not answer, MissingError if one is busy."""
    with Session(Procedure(), ()) as session, contextlib.ExitStack() as stack:
        machine, _ = session.inspect()
        what, units = units_of(machine)
        stack.enter_context(held([unit.placement for unit in units], machine, "machine check", WhenBusy("refuse")))
        tell(f"starting {len(units)} processes")
        processes = Processes([session.launcher.start(BurstRequest(u.placement, u.cores)) for u in units], units)
        stack.callback(processes.close)
        processes.ready()
        taken = rounds_of(processes, len(units), ROUNDS, tell)
    return judged(what, [(unit.word, unit.name) for unit in units], taken, bound)


class Processes:
    """One process a device, all open at once."""

    def __init__(self, live: Sequence[LiveTrial], units: Sequence[Unit], seconds: float = BURST_S) -> None:
        self._live, self._units, self._seconds = list(live), list(units), seconds

    def ready(self) -> None:
        """Wait until all have opened their devices."""
        for place in range(len(self._live)):
            self._hear(place, Entered, _START_S)

    def burst(self, places: Sequence[int]) -> Sequence[Rates]:
        """Keep these devices busy at the same time."""
        line = msgspec.json.encode(Burst(self._seconds)) + b"\n"
        for place in places:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended; `_hear` says why
                os.write(self._live[place].fileno(), line)
        most_s = _KINDS_OF_WORK * self._seconds + _ANSWER_S
        return [self._hear(place, BurstDone, most_s).rates for place in places]

    def close(self) -> None:
        """End all of them."""
        for one in self._live:
            with contextlib.suppress(OSError):
                os.write(one.fileno(), msgspec.json.encode(Finish()) + b"\n")
        for one in self._live:
            one.kill()
            one.ending()

    def _hear(self, place: int, kind: type[_E], most_s: float) -> _E:
        live, ends_s, wrong = self._live[place], system_clock() + most_s, f"no answer within {most_s:.0f} s"
        while select.select([live], [], [], max(0.0, ends_s - system_clock()))[0]:
            events = live.events()
            if events is None:
                break
            for event in events:
                if isinstance(event, kind):
                    return event
                if isinstance(event, Ended) and event.outcome.status != Status.OK:
                    wrong = str(event.outcome.message)
        raise TorchstoneError(f"{self._units[place].word} ({self._units[place].name}): {wrong}")
