"""Where an experiment takes place: an open session for each folder that a side works in, renewed on the way."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from torchstone.core.schema.facts import Facts
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.controller.observer import Silent, Watcher
from torchstone.execution.controller.session import Session
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import Pair, Variant, take_pair


class SessionPool:
    """Use as a context manager. `models`: what each folder's template imports for; None: where the controller works.

    `start_s`: how long it took to open, which is what a renewal costs.
    """

    def __init__(
        self,
        models: Mapping[Path | None, Sequence[str]],
        procedure: Procedure,
        watcher: Watcher | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._watcher = watcher or Silent()
        self._procedure, self._clock = procedure, clock
        self._sessions = {folder: Session(procedure, names, self._watcher, folder) for folder, names in models.items()}
        self._open = ExitStack()
        self._fresh = True
        self.start_s = 0.0

    def __enter__(self) -> Self:
        began_s = self._clock()
        with ExitStack() as stack:
            for session in self._sessions.values():  # they import beside one another: nothing is measured meanwhile
                stack.callback(session.launcher.close)
                session.begin()
            for session in self._sessions.values():
                stack.enter_context(session)
            self._open = stack.pop_all()
        self.start_s = self._clock() - began_s
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

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

    def take(self, sides: Sequence[Variant], number: int, plan: TurnPlan, dice: random.Random, template: int) -> Pair:
        """Take one pair."""
        self._fresh = False
        placed = [(side, self._sessions[side.folder].launcher) for side in sides]
        return take_pair(placed, number, self._procedure, plan, dice, self._watcher, Facts(template=template))
