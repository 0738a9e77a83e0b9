"""Whether two processes fit on one device, as both sides of a live comparison must. The device is not initialised."""

from __future__ import annotations

import msgspec

from torchstone.core.errors import MissingError
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.trial import Outcome, Status
from torchstone.core.units import quantity
from torchstone.plugins import registry

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


def beside(outcome: Outcome, room: Room | None) -> Outcome:
    """Return how a side ended, with what the other left it where it ran out of memory. `room`: beside the other."""
    if outcome.status != Status.OUT_OF_MEMORY or room is None:
        return outcome
    left, whole = quantity(room.free_bytes, "bytes"), quantity(room.total_bytes, "bytes")
    why = f"both sides share the device, and the first left {left} of {whole} free: use smaller batches, or {_APART}"
    return msgspec.structs.replace(outcome, message=f"{outcome.message or 'out of memory'}; {why}")
