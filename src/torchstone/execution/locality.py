"""Where a device sits: the NUMA node and the logical cores next to it, as Linux tells; and keeping a process there.

Sources: Documentation/ABI/testing/sysfs-bus-pci (numa_node, local_cpulist) and sysfs-devices-node (cpulist) of Linux.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from torchstone.core.cores import LIST, NEAR_DEVICE, NODE, cores_of, text_of
from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import DeviceInfo

SYS = Path("/sys")


def located(device: DeviceInfo, sys: Path = SYS) -> DeviceInfo:
    """Return the device with its NUMA node and the cores next to it; None stays where the kernel tells none."""
    if device.bus_id is None:
        return device
    folder = sys / "bus/pci/devices" / device.bus_id.lower()
    node, cores = _line(folder / "numa_node"), _line(folder / "local_cpulist")
    return msgspec.structs.replace(
        device, numa_node=int(node) if node.isdigit() else None,  # -1: the firmware does not tell
        local_cpus=cores if LIST.fullmatch(cores) else None,
    )  # fmt: skip


def nodes(sys: Path = SYS) -> Mapping[int, tuple[int, ...]]:
    """Return the logical cores of each NUMA node that has some; nothing on another system than Linux."""
    found: dict[int, tuple[int, ...]] = {}
    for folder in (sys / "devices/system/node").glob("node[0-9]*"):
        cores = _line(folder / "cpulist")
        if LIST.fullmatch(cores):
            found[int(folder.name.removeprefix("node"))] = cores_of(cores)
    return dict(sorted(found.items()))


def wanted(word: str, device: DeviceInfo | None, sys: Path = SYS) -> tuple[int, ...]:
    """Return the cores that a word asks for: next to the device, of a NUMA node, or as they are listed.

    Raises UsageError where the machine does not tell, or has no such node.
    """
    if word == NEAR_DEVICE:
        near = device.local_cpus if device is not None else None
        if near is None:
            name = device.name if device is not None else "this device"
            raise UsageError(f"cpu_affinity device: the kernel does not tell which cores are next to {name}")
        return cores_of(near)
    if (found := NODE.fullmatch(word)) is not None:
        there = nodes(sys)
        if int(found[1]) not in there:
            have = ", ".join(f"node:{node}" for node in there) or "none"
            raise UsageError(f"cpu_affinity {word}: no such NUMA node; there are: {have}")
        return there[int(found[1])]
    return cores_of(word)


def keep_to(word: str, device: DeviceInfo | None) -> str:
    """Keep this process, and what it starts, to the cores of a word; return them as text. Raises as `usable`."""
    os.sched_setaffinity(0, usable(word, device))
    return text_of(os.sched_getaffinity(0))


def usable(word: str, device: DeviceInfo | None) -> frozenset[int]:
    """Return the cores that a word asks for and this process may use. Raises UsageError where there is none."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(f"cpu_affinity {word}: this system cannot keep a process to some cores")
    asked, ours = wanted(word, device), os.sched_getaffinity(0)
    if not ours & set(asked):
        raise UsageError(f"cpu_affinity {word}: none of the cores {text_of(asked)} is among ours, {text_of(ours)}")
    return frozenset(ours & set(asked))


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").partition("\n")[0].strip()
    except OSError:  # another system, or a container that hides it
        return ""
