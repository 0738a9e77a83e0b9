"""Slices of NVIDIA cards (Multi-Instance GPU), as NVML lists them: a process sees one of them only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


def slices_of(library: Any = None) -> Mapping[str, str]:
    """Return the UUID of every slice with its name; nothing without NVML, or where no card is divided."""
    try:
        nvml = library or import_module("pynvml")
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
        found = dict(_slices(nvml))
        nvml.nvmlShutdown()
    except (nvml.NVMLError, AttributeError):  # no driver, or a pynvml from before there was MIG
        return {}
    return found


def _slices(nvml: Any) -> Iterator[tuple[str, str]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        with contextlib.suppress(nvml.NVMLError):  # a card that cannot be divided
            for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
                with contextlib.suppress(nvml.NVMLError):  # this place holds no slice
                    one = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number)
                    yield str(nvml.nvmlDeviceGetUUID(one)), f"{nvml.nvmlDeviceGetName(one)} of card {index}"
