"""The whole examination of a machine: a look, a noise floor from equal processes, and an A/A test."""

from __future__ import annotations

import contextlib
import math
import os
import random
import select
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Protocol, TypeVar

import msgspec

from torchstone.core.cores import cores_of, cores_text
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.comparison import Comparison, Rules
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Burst, BurstDone, BurstRequest, Ended, Entered, Event, Finish, TrialRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.readings import steal_share
from torchstone.execution import plan
from torchstone.execution.controller.device_lock import BusyError, WhenBusy, held
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.session import Session
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.inspection import SYS, numa_nodes
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.plugins.machine_protocols import LiveTrial
from torchstone.workflows.ab.experiment import ExperimentResult, Variant, as_ab_does, compare_live
from torchstone.workflows.machine_check import conditions
from torchstone.workflows.machine_check.conditions import Fitness, MachineCondition, machine_verdict

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


class RelativeRate(msgspec.Struct, frozen=True):
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
    rows: tuple[RelativeRate, ...]

    @property
    def slow(self) -> tuple[RelativeRate, ...]:
        """The rows of devices that are slower than the others beyond the bound."""
        return tuple(row for row in self.rows if row.slow)


def judged_devices(
    what: str, devices: Sequence[tuple[str, str]], rounds: Sequence[Round], bound: float = BOUND
) -> SideBySide:
    """Return what the rounds show of these devices (pairs of word and name), in the order of the rates."""
    words = tuple(word for word, _ in devices)
    rows = tuple(_rows(devices, rounds, bound)) if rounds else ()
    return SideBySide(what, words, len(rounds), bound, rows)


def _rows(devices: Sequence[tuple[str, str]], rounds: Sequence[Round], bound: float) -> Iterator[RelativeRate]:
    for work in rounds[0].alone[0]:
        alone = _of_work(rounds, work, together=False)
        together = _of_work(rounds, work, together=True)
        relative = {ALONE: _over_median(alone), TOGETHER: _over_median(together)}
        outlying = {when: _outliers(shares) for when, shares in relative.items()}
        for place, (word, name) in enumerate(devices):
            shares = {when: _estimate(of[place], "ratio") for when, of in relative.items()}
            slow = tuple(
                when
                for when, share in shares.items()
                if outlying[when][place] and share.high is not None and share.high < 1.0 - bound
            )
            kept = [after / before for after, before in zip(together[place], alone[place], strict=True)]
            unit = "FLOP/s" if work == "products" else "bytes/s"
            yield RelativeRate(
                word,
                name,
                work,
                unit,
                _estimate(alone[place], unit),
                _estimate(together[place], unit),
                shares[ALONE],
                shares[TOGETHER],
                _estimate(kept, "ratio"),
                slow,
            )


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


MODEL = "builtin:mlp"  # what stands for a step: a few milliseconds of products, the same everywhere
_BATCH = 64
_SPIN_S = 1.5
_PROCESSES = 4
_STEADY_S, _WARM_S = 1.0, 0.5
_EXPERIMENT_S = 30.0
_MINUTE_S = 60.0
_FALSE_ALARMS = 0.01
_FOUND = 1.0 + 1.645 / 2.576  # half-widths (99 %) of a difference that is found 19 times in 20


class Examination(msgspec.Struct, frozen=True):
    """The verdict, what it is made of, and the A/A test (None: left out).

    `settled_in_a_minute`: the relative difference that a minute of `ab` finds 19 times in 20.
    """

    verdict: Fitness
    conditions: tuple[MachineCondition, ...]
    settled_in_a_minute: float | None
    aa: Comparison | None


def examine(device: str, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> Examination:
    """Examine this machine and that device; `folder`: where records go. Raises UsageError if there is no such device.

    `tell` is told what happens next. Where another torchstone measures it is left in peace: only a look is taken.
    """
    tell("other processes")
    with Session(_procedure(), (MODEL,)) as session, contextlib.ExitStack() as locks:
        machine, found = session.inspect()
        placement = plan.place(device, found, machine)
        gauges = conditions.Gauges(machine.device(placement.device, placement.index))
        holder: str | None = None
        try:
            locks.enter_context(held([placement], machine, "machine check", WhenBusy("refuse")))
        except BusyError as busy:
            holder = busy.seen
        before = gauges.read("host_swapped_bytes"), conditions.throttle_events()
        spun = conditions.spin(_SPIN_S, gauges)
        seen = [
            conditions.exclusive_use(holder),
            conditions.cores_kept_busy(spun.others_cores, machine.host.logical_cores or 1, spun.others),
            conditions.lost_time(spun.lost_share, spun.longest_s),
        ]
        case = _case(placement, machine)
        if holder is None:
            tell(f"noise floor: {_PROCESSES} processes of the same code")
            seen += _of_trials(_trials(session, case, machine))
        seen += _of_device(gauges, placement.device)
        seen += _of_host(machine, gauges, *before, folder)
        aa_test: ExperimentResult | None = None
        if holder is None and not quick:
            tell("an A/A test")
            # So small a margin settles nothing: the whole time is used.
            rules = Rules(margin=1e-6, false_alarms=_FALSE_ALARMS, budget_s=_EXPERIMENT_S)
            aa_test = compare_live(Variant("A", case), Variant("A again", case), rules, as_ab_does(_procedure()))
    difference = None if aa_test is None else settled_in_a_minute(aa_test)
    if aa_test is not None:
        seen.append(conditions.aa_test(difference, aa_test.comparison.why_text or str(aa_test.comparison.verdict)))
    return Examination(machine_verdict(seen), tuple(seen), difference, None if aa_test is None else aa_test.comparison)


def _case(placement: Placement, machine: Machine) -> Case:
    sketch = plan.sketch(WorkloadRequest("train", MODEL, axes={"batch_size": (_BATCH,)}))
    return plan.arrange([sketch], [placement], machine, 1, 0, ()).cases[0]


def _trials(session: Session, case: Case, machine: Machine) -> list[Trial]:
    info = machine.device(case.placement.device, case.placement.index)
    requests = [TrialRequest(case, session.procedure, number) for number in range(_PROCESSES)]
    return [TrialDrive(request, info, Silent()).run(session.launcher, request.number) for request in requests]


def settled_in_a_minute(aa_test: ExperimentResult) -> float | None:
    """Return the relative difference that an experiment of a minute would find 19 times in 20, from one of equal sides.

    Its interval narrows with the root of its time; a difference is found so often if it is as large as the interval's
    half-width and 1.645 standard errors more.
    """
    ratio = aa_test.comparison.ratio
    if ratio is None or ratio.low is None or ratio.high is None or aa_test.elapsed_s <= 0.0:
        return None
    half = math.log(ratio.high / ratio.low) / 2.0
    return math.expm1(_FOUND * half * math.sqrt(aa_test.elapsed_s / _MINUTE_S))


def _procedure() -> Procedure:
    return Procedure(
        trials=_PROCESSES,
        warmup_budget_s=_WARM_S,
        budget_s=_STEADY_S,
        target=None,
        telemetry_period_s=0.2,
        count_flops=False,
        phases=False,
        timeout_s=60.0,
    )


def _of_trials(trials: Sequence[Trial]) -> list[MachineCondition]:
    steps = [trial.values("step_time_s") for trial in trials if trial.outcome.status == Status.OK]
    steps = [values for values in steps if len(values) > 1]
    if len(steps) < 2:
        ended = next((t.outcome.message for t in trials if t.outcome.status != Status.OK), None)
        seen, advice = Statement("training_failed", {"message": ended}), Statement("see_run", {"model": MODEL})
        return [MachineCondition("spread of processes", (seen,), Fitness.UNFIT, advice)]
    centres = [median(values) for values in steps]
    spreads = [1.4826 * median(abs(v - c) for v in values) / c for values, c in zip(steps, centres, strict=True)]
    stolen = [share for trial in trials if (share := steal_share(trial)) is not None]
    return [
        conditions.within(median(spreads)),
        conditions.between(stdev(map(math.log, centres)), len(steps)),
        conditions.stolen_time(fmean(stolen) if stolen else None),
    ]


def _of_device(gauges: conditions.Gauges, kind: str) -> list[MachineCondition]:
    if kind == "cpu":
        return []
    return [
        conditions.device_neighbours(gauges.read("device_other_processes")),
        conditions.temperature("device's temperature", gauges.read("device_temperature_c")),
    ]


def _of_host(
    machine: Machine, gauges: conditions.Gauges, swapped: float | None, throttled: int | None, folder: Path
) -> list[MachineCondition]:
    now, events = gauges.read("host_swapped_bytes"), conditions.throttle_events()
    return [
        conditions.throttling(
            gauges.read("device_throttled"), None if throttled is None or events is None else events - throttled
        ),
        conditions.temperature("temperature", gauges.read("host_temperature_c")),
        conditions.governor(machine.host.governor),
        conditions.turbo(machine.settings.get("turbo")),
        conditions.swap_traffic(None if now is None or swapped is None else now - swapped),
        conditions.memory_room(available_bytes(), machine.host.memory_bytes),
        conditions.disk_room(shutil.disk_usage(folder).free, str(folder)),
        conditions.clock(resolution_s(system_clock)),
    ]


ROUNDS, BURST_S = 5, 0.3
_KINDS_OF_WORK = 3
_START_S, _ANSWER_S = 120.0, 60.0  # most time until a process is ready, and beyond a burst until it answers
_MOST_GROUPS = 16
_E = TypeVar("_E", bound=Event)


class CheckedUnit(msgspec.Struct, frozen=True):
    """What is taken for one device: a placement, on some cores (none: all)."""

    word: str
    name: str
    placement: Placement
    cores: tuple[int, ...] = ()


class Bursting(Protocol):
    """What keeps devices busy."""

    def burst(self, places: Sequence[int]) -> Sequence[Rates]:
        """Keep these devices busy at the same time; return the rates of each, in the order of `places`."""


def units_of(machine: Machine, sys: Path = SYS, ours: frozenset[int] | None = None) -> tuple[str, list[CheckedUnit]]:
    """Return what stands for devices here, in a word: the accelerators; else the NUMA nodes; else the CPU's cores."""
    cards = [device for device in machine.devices if device.kind != "cpu"]
    if cards:
        return "devices", [CheckedUnit(f"{d.kind}:{d.index}", d.name, Placement(d.kind, d.index)) for d in cards]
    allowed = ours if ours is not None else frozenset(getattr(os, "sched_getaffinity", lambda _: ())(0))
    cpu, name = Placement("cpu"), machine.host.processor or "CPU"
    there = {node: tuple(c for c in cores if c in allowed) for node, cores in numa_nodes(sys).items()}
    there = {node: cores for node, cores in there.items() if cores}
    if len(there) > 1:
        return "NUMA nodes", [CheckedUnit(f"node:{node}", name, cpu, cores) for node, cores in there.items()]
    groups = _groups(_physical(sys, allowed))
    return "cores", [CheckedUnit(f"core {cores_text(cores)}", name, cpu, cores) for cores in groups] or [
        CheckedUnit("cpu", name, cpu)
    ]


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


def rounds_of(bursting: Bursting, count: int, rounds: int, tell: Callable[[str], None]) -> list[Round]:
    """Return rounds of each of `count` devices alone, in random order, and all at once."""
    dice, found = random.Random(0), []
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
    return judged_devices(what, [(unit.word, unit.name) for unit in units], taken, bound)


class Processes:
    """One process a device, all open at once."""

    def __init__(self, live: Sequence[LiveTrial], units: Sequence[CheckedUnit]) -> None:
        self._live, self._units = list(live), list(units)

    def ready(self) -> None:
        """Wait until all have opened their devices."""
        for place in range(len(self._live)):
            self._hear(place, Entered, _START_S)

    def burst(self, places: Sequence[int]) -> Sequence[Rates]:
        """Keep these devices busy at the same time."""
        line = msgspec.json.encode(Burst(BURST_S)) + b"\n"
        for place in places:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended; `_hear` says why
                os.write(self._live[place].fileno(), line)
        most_s = _KINDS_OF_WORK * BURST_S + _ANSWER_S
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
