"""Lists devices and versions of this machine, in a separate process: it imports torch and initialises drivers."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from torchstone.core.errors import Unsupported
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.execution.locality import located
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
