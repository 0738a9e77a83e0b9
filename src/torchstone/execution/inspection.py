"""Lists devices and versions of this machine, in a separate process: it imports torch and initialises drivers."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.cores import LIST, NEAR_DEVICE, NODE, cores_of, cores_text
from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Vendor

_PACKAGES = ("torchstone", "torch", "numpy", "transformers", "timm", "torchvision")


def inspect() -> Inspected:
    """Ask every kind of device whether it is there, and every library for its version."""
    devices: list[DeviceInfo] = []
    missing: dict[str, str] = {}
    seen: dict[str, str] = {}
    slices: dict[str, str] = {}
    for kind in registry.names("devices"):
        try:
            vendor: Vendor = registry.load("devices", kind)
        except Exception as error:  # a plug-in of a third party
            missing[kind] = f"looking for it failed ({type(error).__name__}: {error})"
            continue
        there, why = _looked(vendor)
        devices.extend(map(located, there))
        slices.update(vendor.slices())
        if not there:
            missing[kind] = why
            if shown := Counter(vendor.seen()):
                seen[kind] = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in shown.items())
    return Inspected(devices=tuple(devices), software=software(), missing=missing, seen=seen, slices=slices)


def _looked(vendor: Vendor) -> tuple[Sequence[DeviceInfo], str]:
    """Return the devices of a kind, or none and why."""
    try:
        there = vendor.probe()
        return there, "" if there else vendor.missing()
    except Unsupported as reason:
        return (), str(reason)
    except Exception as error:  # a third party's, or one in a state that nobody has foreseen: the other kinds stay
        return (), f"looking for it failed ({type(error).__name__}: {error})"


def software() -> Mapping[str, str | None]:
    """Return name → version of what can change a number; None for what is not installed."""
    told: dict[str, str | None] = {"python": platform.python_version()}
    told.update({name: _installed(name) for name in _PACKAGES})
    try:
        torch: Any = import_module("torch")
    except (ImportError, OSError):  # no torch, or one that does not load: the devices' `missing` says which
        return {**told, "cuda": None, "rocm": None, "cudnn": None}
    told["torch"] = str(torch.__version__)  # with the build (+cpu, +cu130), which the package's metadata may lack
    told["cuda"], told["rocm"] = torch.version.cuda, torch.version.hip
    told["cudnn"] = _cudnn(torch.backends.cudnn.version()) if torch.backends.cudnn.is_available() else None
    return told


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # an extra that is not there
        return None


def _cudnn(number: int | None) -> str | None:
    if number is None:
        return None
    major = 10_000 if number >= 90_000 else 1_000  # 91002 is 9.10.2, 8907 is 8.9.7
    return f"{number // major}.{number % major // 100}.{number % 100}"


SYS = Path("/sys")


def located(device: DeviceInfo, sys: Path = SYS) -> DeviceInfo:
    """Return the device with its NUMA node and the cores next to it; None stays where the kernel tells none."""
    if device.bus_id is None:
        return device
    folder = sys / "bus/pci/devices" / device.bus_id.lower()
    node, cores = _line(folder / "numa_node"), _line(folder / "local_cpulist")
    return msgspec.structs.replace(
        device,
        numa_node=int(node) if node.isdigit() else None,  # -1: the firmware does not tell
        local_cpus=cores if LIST.fullmatch(cores) else None,
    )


def numa_nodes(sys: Path = SYS) -> Mapping[int, tuple[int, ...]]:
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
        there = numa_nodes(sys)
        if int(found[1]) not in there:
            have = ", ".join(f"node:{node}" for node in there) or "none"
            raise UsageError(f"cpu_affinity {word}: no such NUMA node; there are: {have}")
        return there[int(found[1])]
    return cores_of(word)


def keep_to(word: str, device: DeviceInfo | None) -> str:
    """Keep this process, and what it starts, to the cores of a word; return them as text. Raises as `usable_cores`."""
    os.sched_setaffinity(0, usable_cores(word, device))
    return cores_text(os.sched_getaffinity(0))


def usable_cores(word: str, device: DeviceInfo | None) -> frozenset[int]:
    """Return the cores that a word asks for and this process may use. Raises UsageError where there is none."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError(f"cpu_affinity {word}: this system cannot keep a process to some cores")
    asked, ours = wanted(word, device), os.sched_getaffinity(0)
    if not ours & set(asked):
        raise UsageError(
            f"cpu_affinity {word}: none of the cores {cores_text(asked)} is among ours, {cores_text(ours)}"
        )
    return frozenset(ours & set(asked))


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").partition("\n")[0].strip()
    except OSError:  # another system, or a container that hides it
        return ""
