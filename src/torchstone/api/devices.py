"""Opens a device in the user's own process."""

from __future__ import annotations

import msgspec

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.execution import machine_facts, plan
from torchstone.execution.inspection import inspect
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device


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
