"""Who waits for whom: the loader alone and the device alone, measured on their own, explain what both do together.

While processes of their own load, loading and computing overlap, and the slower sets the pace: min(loader, device).
With 0 workers they alternate, and the times of a batch add: 1 / (1/loader + 1/device). A device that runs behind the
host computes meanwhile all the same, so 0 workers may do better than that.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from torchstone.core import units

_EVEN = 0.05  # rates this close set the pace together
_SHORT = 0.9  # of what both allow: below it something else is in the way
_RATE = "items/s"


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
    sentence: str
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
    """Return who waits, by how much, and one sentence that says so.

    loader, device: items/s of the loader alone (task load) and of the device alone (resident batches). whole: of both
    together; None takes what they make possible. wait_share: of a window, as measured; None takes what the rates say,
    which is also the most that is believed: a host that waits need not mean that its device does. workers: of the
    loader; None takes it that there are some.
    """
    if not loader or not device:
        missing = "the loader" if not loader else "the device"
        return Feeding(Pace.UNKNOWN, f"who waits for whom is not known: {missing} alone was not measured")
    possible = min(loader, device) if workers != 0 else 1.0 / (1.0 / loader + 1.0 / device)
    rate = whole or possible
    idle = max(0.0, 1.0 - rate / device)
    waits = idle if wait_share is None else min(idle, wait_share)
    faster = 1.0 / (1.0 - waits)
    pace = _pace(loader, device, rate, workers)
    sentence = _TOLD[pace].format(
        loader=units.quantity(loader, _RATE), device=units.quantity(device, "number"),
        waits=f"{100.0 * waits:.0f} %", faster=_times(faster), ahead=_times(loader / device),
    )  # fmt: skip
    if whole is not None and whole < _SHORT * possible:
        allowed = units.quantity(possible, _RATE)
        sentence += f"; together they reach only {units.quantity(whole, 'number')} of the {allowed} that this allows"
    return Feeding(pace, sentence, possible, waits, faster)


def _pace(loader: float, device: float, rate: float, workers: int | None) -> Pace:
    if workers == 0 and rate < (1.0 - _EVEN) * min(loader, device):
        return Pace.TURNS
    if abs(loader - device) <= _EVEN * max(loader, device):
        return Pace.BOTH
    return Pace.LOADER if loader < device else Pace.DEVICE


def _times(factor: float) -> str:
    return f"{factor:.2g} times" if factor < 9.95 else f"{factor:,.0f} times"


_BOTH_RATES = "the loader delivers {loader}, the device processes {device}: "
_TOLD = {
    Pace.LOADER: _BOTH_RATES + "the device waits {waits} of the step; with enough workers up to {faster} faster",
    Pace.DEVICE: _BOTH_RATES + "the loader is {ahead} as fast as it must be; more workers gain nothing",
    Pace.BOTH: _BOTH_RATES + "they keep pace, and only both together can get faster",
    Pace.TURNS: _BOTH_RATES
    + "with 0 workers they alternate, and the device waits {waits} of the step; with enough workers up to {faster} "
    "faster",
}
