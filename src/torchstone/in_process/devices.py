"""Opens a device in the user's own process."""

from __future__ import annotations

from torchstone import machine_facts, plan, registry
from torchstone.extend import Device
from torchstone.inspection import inspect
from torchstone.terms.case import Placement
from torchstone.terms.machine import Machine


def open_device(word: str) -> tuple[Device, Placement]:
    """Return the device that `auto`, `cpu`, `cuda:1`, … means here. Raises UsageError if it is not there."""
    found = inspect()
    machine = Machine(machine_facts.host(), found.devices, found.software, {})
    placement = plan.place(word, found, machine)
    device: Device = registry.load("devices", placement.device).open(placement.index)
    return device, placement
