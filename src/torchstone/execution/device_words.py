"""Devices by their UUID, as nvidia-smi -L prints it: GPU-…, or MIG-… of a slice of a card; its beginning is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.message import Inspected

_UUID = re.compile(r"(GPU|MIG)-[0-9a-zA-Z/-]{1,120}")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def is_uuid(word: str) -> bool:
    """Say whether a word names a device by its UUID."""
    return _UUID.fullmatch(word) is not None


def of_uuid(word: str, inspected: Inspected, machine: Machine) -> DeviceInfo:
    """Return the device whose UUID begins so. Raises UsageError where none or several do, with what there is."""
    fitting = [device for device in machine.devices if (device.uuid or "").lower().startswith(word.lower())]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(f"{device.uuid} ({device.kind}:{device.index})" for device in machine.devices if device.uuid)
    if fitting:
        raise UsageError(f"device {word}: {len(fitting)} devices begin so: {known}")
    if (named := dict(_beginning(word, inspected.slices))) and len(named) == 1:
        uuid, name = named.popitem()
        raise UsageError(f"device {word}: {name} is not shown to this process; type {VISIBLE}={uuid} before it")
    slices = "".join(f", {uuid} ({name})" for uuid, name in inspected.slices.items())
    raise UsageError(f"device {word}: no such device here. Found: {(known + slices).strip(', ') or 'none with a UUID'}")


def _beginning(word: str, slices: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((uuid, name) for uuid, name in slices.items() if uuid.lower().startswith(word.lower()))


def show_slice(words: Sequence[str], environment: MutableMapping[str, str]) -> None:
    """Show the processes of this command the slice that it names: CUDA shows each one slice, the first if nobody asks.

    Raises UsageError for several. Where the user has set CUDA_VISIBLE_DEVICES, that stands.
    """
    slices = list(dict.fromkeys(word for word in words if is_uuid(word) and word.startswith("MIG-")))
    if len(slices) > 1:
        raise UsageError(f"device {', '.join(slices)}: CUDA shows a process one slice; measure one after the other")
    if slices and VISIBLE not in environment:
        environment[VISIBLE] = slices[0]
