"""Opens a device in the user's own process."""

from __future__ import annotations

import msgspec

from torchstone import machine_facts, plan, registry
from torchstone.extend_machine import Device
from torchstone.inspection import inspect
from torchstone.terms.case import Placement
from torchstone.terms.machine import DeviceInfo, Machine


class Opened(msgspec.Struct, frozen=True):
    """A device that is open, what it is called here, and what it is."""

    device: Device
    placement: Placement
    info: DeviceInfo | None


def open_device(word: str) -> Opened:
    """Return the device that `auto`, `cpu`, `cuda:1`, … means here. Raises UsageError if it is not there."""
    found = inspect()
    machine = Machine(machine_facts.host(), found.devices, found.software, {})
    placement = plan.place(word, found, machine)
    device: Device = registry.load("devices", placement.device).open(placement.index)
    return Opened(device, placement, machine.device(placement.device, placement.index))
