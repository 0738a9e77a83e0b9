"""A session: an open launcher, and the Machine it runs on."""

from __future__ import annotations

import copy
import datetime
import math
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Any, Self

import msgspec

from torchstone.core.errors import MissingError, TorchstoneError, UsageError
from torchstone.core.figures import closed_loop_only, raw
from torchstone.core.schema.case import Case, Placement, Task
from torchstone.core.schema.machine import DeviceInfo, Machine, Room
from torchstone.core.schema.message import (
    Brought,
    Event,
    Inspected,
    InspectRequest,
    RehearseRequest,
    Saved,
    SaveRequest,
)
from torchstone.core.schema.model import OwnData
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, Head, Plan
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.core.stats.correlated import relative_error
from torchstone.core.stats.disturbance import undisturbed_part
from torchstone.core.stats.readings import FEWEST_TICKS, USUAL_TICK_S
from torchstone.core.units import quantity
from torchstone.execution import machine_facts
from torchstone.execution.controller.nodes import SpreadLauncher, inspected, nodes_of
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.timing.clock import system_clock
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Launcher
from torchstone.storage.stored_peaks import with_kept

_APART = "measure one after the other: `torchstone run` of each, then `torchstone compare`"
_TWICE = 0.9  # of a device's memory may be two sides together: contexts and workspaces are not in what was allocated


def room_of(device: DeviceInfo | None) -> Room | None:
    """Return what a device has left for one more process, or None where nobody knows."""
    if device is None:
        return None
    rooms = (source.room(device) for _, source in registry.usable("telemetry"))
    return next((room for room in rooms if room is not None), None)


def refuse_unshared(device: DeviceInfo | None) -> None:
    """Raise MissingError where a device admits a single process, before the first of two sides takes it."""
    room = room_of(device)
    if device is not None and room is not None and not room.shared:
        raise MissingError(
            f"{device.kind}:{device.index} accepts one process only (compute mode exclusive), but both sides of a "
            f"live comparison use it at once: {_APART}"
        )


def holds_two(device: DeviceInfo | None, one_bytes: float | None) -> bool:
    """Say whether a device holds two processes that allocate so much each, as far as that is known."""
    room = room_of(device)
    if room is not None and not room.shared:
        return False
    total = room.total_bytes if room is not None else device.memory_bytes if device is not None else None
    return total is None or one_bytes is None or 2.0 * one_bytes <= _TWICE * total


def with_room(outcome: Outcome, room: Room | None) -> Outcome:
    """Return how a side ended, with what the other left it where it ran out of memory. `room`: beside the other."""
    if outcome.status != Status.OUT_OF_MEMORY or room is None:
        return outcome
    left, whole = quantity(room.free_bytes, "bytes"), quantity(room.total_bytes, "bytes")
    why = f"both sides share the device, and the first left {left} of {whole} free: use smaller batches, or {_APART}"
    return msgspec.structs.replace(outcome, message=f"{outcome.message or 'out of memory'}; {why}")


UNKNOWN_S = 0.5  # while nothing is known of a case
_SHORTEST_S, _LONGEST_S = 0.3, 2.5
_FEWEST = 3
_LEAST_SHARE = 0.02  # of the variance within: so much is between processes, whatever three of them show
_LEAST_FOR_ENERGY_S = 1.1 * FEWEST_TICKS * USUAL_TICK_S


class Cost(msgspec.Struct, frozen=True):
    """What a trial took besides its windows, their whole length, and how many of them there were."""

    start_s: float
    windows_s: float
    windows: int


def cost_of(trial: Trial) -> Cost | None:
    """Return what a trial cost; None where it measured no window."""
    windows = [m.values[0] for m in trial.measurements if m.metric == "window_time_s" and m.values]
    if not windows:
        return None
    return Cost(max(0.0, trial.duration_s - math.fsum(windows)), math.fsum(windows), len(windows))


def window_s(trials: Sequence[Trial], most_s: float) -> float:
    """Return the length of a window for the next trial of a case, from those that ended well; at most `most_s`."""
    parts = map(undisturbed_part, trials)
    known = [(cost, error, trial) for trial in parts if (cost := cost_of(trial)) and (error := _error(trial))]
    if len(known) < _FEWEST:
        return min(UNKNOWN_S, most_s)
    within = fmean(error**2 * cost.windows_s / cost.windows for cost, error, _ in known)  # of a window of one second
    logs = [math.log(_pace(trial)) for *_, trial in known]
    explained = fmean(error**2 for _, error, _ in known)
    between = max(variance(logs) - explained, _LEAST_SHARE * within)
    start_s = fmean(cost.start_s / cost.windows for cost, *_ in known)
    best = math.sqrt(start_s * within / between) if between > 0.0 else _SHORTEST_S
    return min(max(best, _SHORTEST_S), _LONGEST_S, most_s)


def usual_step_s(trials: Sequence[Trial]) -> float:
    """Return what a step takes, over the trials of a case; 0 where none tells."""
    return fmean([_pace(trial) for trial in map(undisturbed_part, trials) if _steps(trial)] or [0.0])


def _steps(trial: Trial) -> tuple[float, ...]:
    return raw(trial, "latency_s", True) if closed_loop_only(trial) else raw(trial, "step_time_s", False)


def _error(trial: Trial) -> float | None:
    return relative_error(_steps(trial))


def _pace(trial: Trial) -> float:
    return fmean(_steps(trial))


def least_window_s(case: Case) -> float:
    """Return the least length of each window of a Case in seconds: for its energy, both together. 0: any will do.

    Of a load, all it may have: its high percentiles are what it is for.
    """
    if case.workload.task == Task.LOADGEN:
        return math.inf
    if case.placement.device != "cuda":  # others have no counter, or one that moves every millisecond
        return 0.0
    return _LEAST_FOR_ENERGY_S / (2.0 if case.configuration.get("mode") == "both" else 1.0)


def for_objective(procedure: Procedure, objective: str, placement: Placement) -> Procedure:
    """Return the Procedure of a search for that objective: for energy its windows are long enough, and end by time."""
    if objective != "energy" or placement.device != "cuda":
        return procedure
    return msgspec.structs.replace(procedure, target=None, budget_s=max(procedure.budget_s, _LEAST_FOR_ENERGY_S))


_SERVES = 5.0  # times as long as it took to start


def isolation(word: str) -> str:
    """Return the launcher that `auto` means here: fork, but not on macOS, whose frameworks do not survive one."""
    if word != "auto":
        return word
    return "fork" if sys.platform == "linux" else "spawn"


def _launcher(word: str) -> Launcher:
    if word != "program":
        found: Launcher = copy.copy(registry.load("launchers", word))
        return found
    from torchstone.execution.program.trial import ProgramLauncher  # which other sessions do without

    return ProgramLauncher()


def _crash(case: Case, outcome: Outcome) -> str:
    """Return what crashed, and where: the lines of the user's own traceback without the error they end with."""
    if outcome.traceback is None:
        return f"{case.workload.model}: {outcome.message}"
    return "\n".join((f"{case.workload.model} raised {outcome.message}", *outcome.traceback.splitlines()[:-1]))


class _Ear(Silent):
    """A Watcher that keeps what a rehearsal says of the user's data, and how a model that was written is run."""

    brought = OwnData()
    lines: Sequence[str] = ()

    def heard(self, event: Event) -> None:
        """Keep it."""
        if isinstance(event, Brought):
            self.brought = event.data
        elif isinstance(event, Saved):
            self.lines = event.lines


class Session:
    """Use as a context manager. `preload`: the models whose libraries the template imports.

    `folder`: where trials work; None: where the controller does. `nodes`: on how many machines of this allocation.
    Several sessions may be open at once. `openings`: how often what trials are forked from was started. Raises
    UsageError where the allocation has fewer nodes.
    """

    def __init__(
        self,
        procedure: Procedure,
        preload: Sequence[str],
        watcher: Watcher | None = None,
        folder: Path | None = None,
        nodes: int = 1,
    ) -> None:
        self.procedure = msgspec.structs.replace(procedure, isolation=isolation(procedure.isolation))
        self._preload = tuple(dict.fromkeys(preload))
        self.watcher: Watcher = watcher or Silent()
        self._folder = folder
        self._begun_s = self._opened_s = self._opening_s = 0.0
        self.openings = 0
        self.launcher: Launcher = _launcher(self.procedure.isolation)
        if nodes > 1:
            self.launcher = SpreadLauncher(self.launcher, nodes_of(nodes))
        self._begun = False

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:  # Ctrl-C while the template still imports: it must not outlive us
            self.launcher.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.launcher.close()

    def renew(self) -> None:
        """Replace what trials are forked from."""
        self._open()

    @property
    def renewal_s(self) -> float:
        """How long it takes to start what trials are forked from: as long as it took last time."""
        return self._opening_s

    def is_worth_renewing(self, left_s: float) -> bool:
        """Say whether what trials are forked from has served so long, and what follows would, that it costs little.

        `left_s`: the time that is left to the run.
        """
        return min(system_clock() - self._opened_s, left_s) >= _SERVES * self._opening_s

    def begin(self) -> None:
        """Start what trials are forked from and leave it to import; entering, or `renew`, then waits for that."""
        pin = bool(self.procedure.pin_threads)
        self._begun_s = system_clock()
        self.launcher.open(self._preload, self.procedure.heap, self._folder, pin_threads=pin)
        self._begun = True

    def _open(self) -> None:
        if not self._begun:
            self.begin()
        self._begun = False
        self.launcher.ready()
        self._opened_s = system_clock()
        self._opening_s = self._opened_s - self._begun_s
        self.openings += 1

    def inspect(self) -> tuple[Machine, Inspected]:
        """Return this Machine, as a fresh process finds it."""
        found = inspected(self.launcher.start(InspectRequest()), "this machine")
        machine = with_kept(Machine(machine_facts.host(), found.devices, found.software, machine_facts.settings()))
        if isinstance(self.launcher, SpreadLauncher):
            self.launcher.compare(machine)
        return machine, found

    def rehearse(self, cases: Sequence[Case]) -> None:
        """Do one step of each Case with the user's own model or data. Raises UsageError where it crashes."""
        for case in cases:
            self.rehearsed(case)

    def rehearsed(self, case: Case, left_open: Sequence[str] = ()) -> OwnData:
        """Do one step of a Case with the user's own model or data, and return what data it brought.

        `left_open`: axes that this data decides. Raises UsageError where it crashes.
        """
        ear = _Ear()
        request = RehearseRequest(case, self.procedure, left_open=tuple(left_open))
        drive = TrialDrive(request, None, ear)
        outcome = drive.run(self.launcher, 0).outcome
        if drive.mistake is not None:
            raise UsageError(drive.mistake)
        if outcome.status == Status.CRASHED:
            raise UsageError(_crash(case, outcome))
        return ear.brought

    def save(self, case: Case, folder: Path, path: str) -> Sequence[str]:
        """Write the model of a Case into a folder, in files of its name; return the lines of Python that run it.

        `path`: where the files will be, without suffix. Raises TorchstoneError where it cannot be written.
        """
        ear = _Ear()
        drive = TrialDrive(SaveRequest(case, self.procedure, folder=str(folder), path=path), None, ear)
        outcome = drive.run(self.launcher, 0).outcome
        if outcome.status != Status.OK:
            raise TorchstoneError(f"{path} cannot be written: {drive.mistake or outcome.message or outcome.status}")
        return ear.lines

    def head(self, plan: Plan, machine: Machine, name: str, command: Sequence[str], **about: Any) -> Head:
        """Return the Head of a run that begins now. `about`: its further fields."""
        now = datetime.datetime.now(datetime.UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        return Head(
            SCHEMA,
            run_id,
            name,
            now.isoformat(timespec="seconds"),
            tuple(command),
            machine,
            self.procedure,
            plan,
            **about,
        )
