"""What is here: devices and versions. Runs in a process of its own, because it imports torch and wakes drivers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from torchstone import registry
from torchstone.extend_machine import Vendor
from torchstone.terms.machine import DeviceInfo
from torchstone.terms.message import Inspected

_PACKAGES = ("torchstone", "torch", "numpy", "transformers", "timm", "torchvision")


def inspect() -> Inspected:
    """Ask every kind of device whether it is there, and every library for its version."""
    devices: list[DeviceInfo] = []
    missing: dict[str, str] = {}
    for kind in registry.names("devices"):
        try:
            vendor: Vendor = registry.load("devices", kind)
            there = vendor.probe()
            if there:
                devices.extend(there)
            else:
                missing[kind] = vendor.missing()
        except Exception as error:
            # A plug-in of a third party or a driver in a bad state: told as what is missing, the other kinds stay.
            missing[kind] = f"looking for it failed ({type(error).__name__}: {error})"
    return Inspected(devices=tuple(devices), software=software(), missing=missing)


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
