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
from torchstone.core.schema.facts import Facts

_OF_OWN_DATA = tuple(name for name in Facts.__struct_fields__ if name.startswith("own_") or name == "example_tokens")
_EVEN = 0.05  # rates this close set the pace together
_SHORT = 0.9  # of what both allow: below it something else is in the way


class FeedPace(StrEnum):
    """What sets the pace."""

    LOADER = "loader"
    DEVICE = "device"
    BOTH = "both"  # equally fast
    TURNS = "turns"  # one after the other: loading with 0 workers
    UNKNOWN = "unknown"


class Feeding(msgspec.Struct, frozen=True):
    """Who waits for whom.

    `possible`: items/s of both together if nothing else is in the way. `wait_share`: share of a step in which the
    device waits for data.
    """

    pace: FeedPace
    seen: tuple[Statement, ...]
    possible: float | None = None
    wait_share: float | None = None


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
        return Feeding(FeedPace.UNKNOWN, (Statement("loader_unmeasured" if not loader else "device_unmeasured"),))
    possible = min(loader, device) if workers != 0 else 1.0 / (1.0 / loader + 1.0 / device)
    rate = whole or possible
    idle = max(0.0, 1.0 - rate / device)
    waits = idle if wait_share is None else min(idle, wait_share)
    pace = _pace(loader, device, rate, workers)
    rates: dict[str, Scalar] = {
        "loader": loader,
        "device": device,
        "share": waits,
        "ahead": loader / device,
    }
    seen: tuple[Statement, ...] = (Statement(f"paced_by_{pace}", rates),)
    if whole is not None and whole < _SHORT * possible:
        seen = (*seen, Statement("together_only", {"rate": whole, "possible": possible}))
    return Feeding(pace, seen, possible, waits)


def _pace(loader: float, device: float, rate: float, workers: int | None) -> FeedPace:
    if workers == 0 and rate < (1.0 - _EVEN) * min(loader, device):
        return FeedPace.TURNS
    if abs(loader - device) <= _EVEN * max(loader, device):
        return FeedPace.BOTH
    return FeedPace.LOADER if loader < device else FeedPace.DEVICE


def own_data(facts: Facts) -> Facts:
    """Return the facts of a trial that tell of the user's own data."""
    return Facts(**{name: getattr(facts, name) for name in _OF_OWN_DATA})
