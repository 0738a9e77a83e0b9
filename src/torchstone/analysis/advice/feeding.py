"""Who waits for whom: the loader alone and the device alone, measured on their own, explain what both do together.

While processes of their own load, loading and computing overlap, and the slower sets the pace: min(loader, device).
With 0 workers they alternate, and the times of a batch add: 1 / (1/loader + 1/device). A device that runs behind the
host computes meanwhile all the same, so 0 workers may do better than that.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar

_EVEN = 0.05  # rates this close set the pace together
_SHORT = 0.9  # of what both allow: below it something else is in the way


class Pace(StrEnum):
    """What sets the pace."""

    LOADER = "loader"
    DEVICE = "device"
    BOTH = "both"  # equally fast
    TURNS = "turns"  # one after the other: loading with 0 workers
    UNKNOWN = "unknown"


class Feeding(msgspec.Struct, frozen=True):
    """Who waits for whom.

    `possible`: items/s of both together if nothing else is in the way. `wait_share`: share of a step in which the
    device waits for data. `faster`: up to how many times faster a loader that is never waited for makes it.
    """

    pace: Pace
    seen: tuple[Statement, ...]
    possible: float | None = None
    wait_share: float | None = None
    faster: float | None = None


def feeding(
    loader: float | None,
    device: float | None,
    whole: float | None = None,
    wait_share: float | None = None,
    workers: int | None = None,
) -> Feeding:
    """Return who waits, and by how much.

    loader, device: items/s of the loader alone (task load) and of the device alone (resident batches). whole: of both
    together; None takes what they make possible. wait_share: of a window, as measured; None takes what the rates say,
    which is also the most that is believed: a host that waits need not mean that its device does. workers: of the
    loader; None takes it that there are some.
    """
    if not loader or not device:
        return Feeding(Pace.UNKNOWN, (Statement("loader_unmeasured" if not loader else "device_unmeasured"),))
    possible = min(loader, device) if workers != 0 else 1.0 / (1.0 / loader + 1.0 / device)
    rate = whole or possible
    idle = max(0.0, 1.0 - rate / device)
    waits = idle if wait_share is None else min(idle, wait_share)
    faster = 1.0 / (1.0 - waits)
    pace = _pace(loader, device, rate, workers)
    rates: dict[str, Scalar] = {
        "loader": loader, "device": device, "share": waits, "faster": faster, "ahead": loader / device,
    }  # fmt: skip
    seen: tuple[Statement, ...] = (Statement(f"paced_by_{pace}", rates),)
    if whole is not None and whole < _SHORT * possible:
        seen = (*seen, Statement("together_only", {"rate": whole, "possible": possible}))
    return Feeding(pace, seen, possible, waits, faster)


def _pace(loader: float, device: float, rate: float, workers: int | None) -> Pace:
    if workers == 0 and rate < (1.0 - _EVEN) * min(loader, device):
        return Pace.TURNS
    if abs(loader - device) <= _EVEN * max(loader, device):
        return Pace.BOTH
    return Pace.LOADER if loader < device else Pace.DEVICE
