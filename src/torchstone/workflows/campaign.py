"""What every workflow that measures does between its request and its first trial: devices found, held, a head made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.run import Head, Plan
from torchstone.execution.controller.device_lock import WhenBusy, held
from torchstone.execution.controller.session import Session
from torchstone.execution.plan import Sketch
from torchstone.execution.timing.clock import system_clock


@contextmanager
def begun(
    session: Session, machine: Machine, placements: Sequence[Placement], name: str, command: Sequence[str],
    busy: WhenBusy, **about: Any,
) -> Iterator[tuple[Head, float]]:  # fmt: skip
    """Hold the devices of a run that begins now; yield its Head, not written yet, and the seconds it waited for them.

    `about`: further fields of the Head. Its Plan is empty: the user's own code is rehearsed on the devices before there
    is one.
    """
    head = session.head(Plan((), ()), machine, name, command, **about)
    asked_s = system_clock()
    with held(placements, machine, head.run_id, busy):
        yield head, system_clock() - asked_s


def code_of(sketches: Sequence[Sketch]) -> dict[str, str]:
    """Return the digest of each model's file, by the model's name, where it is the user's own."""
    return {one.workload.model: one.code_sha256 for one in sketches if one.code_sha256 is not None}
