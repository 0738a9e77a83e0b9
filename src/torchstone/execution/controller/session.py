"""A session: an open launcher, and the Machine it runs on."""

from __future__ import annotations

import copy
import datetime
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.message import Brought, Ended, Event, Inspected, InspectRequest, RehearseRequest
from torchstone.core.schema.own_data import OwnData
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, Head, Plan
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution import machine_facts
from torchstone.execution.controller.nodes.launcher import SpreadLauncher, nodes_of
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Launcher
from torchstone.storage.stored_peaks import with_kept

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
    """A Watcher that keeps what a rehearsal says of the user's data."""

    brought = OwnData()

    def heard(self, event: Event) -> None:
        """Keep it."""
        if isinstance(event, Brought):
            self.brought = event.data


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
        clock: Clock = system_clock,
        nodes: int = 1,
    ) -> None:
        self.procedure = msgspec.structs.replace(procedure, isolation=isolation(procedure.isolation))
        self._preload = tuple(dict.fromkeys(preload))
        self.watcher: Watcher = watcher or Silent()
        self._folder = folder
        self._clock = clock
        self._begun_s = self._opened_s = self._opening_s = 0.0
        self.openings = 0
        self.launcher: Launcher = _launcher(self.procedure.isolation)
        if nodes > 1:
            self.launcher = SpreadLauncher(self.launcher, nodes_of(nodes), self.procedure)
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
        return min(self._clock() - self._opened_s, left_s) >= _SERVES * self._opening_s

    def begin(self) -> None:
        """Start what trials are forked from and leave it to import; entering, or `renew`, then waits for that."""
        pin = bool(self.procedure.pin_threads)
        self._begun_s = self._clock()
        self.launcher.open(self._preload, self.procedure.heap, self._folder, pin_threads=pin)
        self._begun = True

    def _open(self) -> None:
        if not self._begun:
            self.begin()
        self._begun = False
        self.launcher.ready()
        self._opened_s = self._clock()
        self._opening_s = self._opened_s - self._begun_s
        self.openings += 1

    def inspect(self) -> tuple[Machine, Inspected]:
        """Return this Machine, as a fresh process finds it."""
        live = self.launcher.start(InspectRequest())
        found: Inspected | None = None
        wrong: str | None = None
        while (events := live.events()) is not None:
            for event in events:
                found = event if isinstance(event, Inspected) else found
                if isinstance(event, Ended) and event.outcome.status != Status.OK:
                    wrong = event.outcome.message
        ending = live.ending()
        if found is None:
            raise TorchstoneError(f"this machine could not be inspected: {wrong or ending}")
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

    def head(self, plan: Plan, machine: Machine, name: str, command: Sequence[str], **about: Any) -> Head:
        """Return the Head of a run that begins now. `about`: its further fields."""
        now = datetime.datetime.now(datetime.UTC)
        run_id = f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        return Head(
            SCHEMA, run_id, name, now.isoformat(timespec="seconds"), tuple(command), machine, self.procedure, plan,
            **about,
        )  # fmt: skip
