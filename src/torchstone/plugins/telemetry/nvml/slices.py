"""Slices of a card (NVIDIA's MIG): what NVML tells of the whole card must not be booked on one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Power and energy are measured for the card, utilization for none of its slices (NVIDIA Multi-Instance GPU User Guide);
# drivers differ in whether they refuse to tell them of a slice or tell the card's.
OF_THE_CARD = frozenset({"device_utilization", "device_power_w", "device_power_limit_w", "device_energy_j"})
# Of a card that is divided, when it is not known which slice the trial is on.
OF_ALL_SLICES = OF_THE_CARD | {"device_memory_used_bytes", "device_other_processes", "device_working_processes"}


def not_of_the_trial(nvml: Any, handle: Any) -> frozenset[str]:
    """Return the metrics that NVML tells of this handle and that are of more than the trial's device."""
    if _told(nvml, lambda: _number(nvml.nvmlDeviceIsMigDeviceHandle(handle))):
        return OF_THE_CARD
    if _told(nvml, lambda: _number(nvml.nvmlDeviceGetMigMode(handle)[0])):
        return OF_ALL_SLICES
    return frozenset()


def _told(nvml: Any, ask: Callable[[], int]) -> bool:
    try:
        return ask() != 0
    except (nvml.NVMLError, AttributeError):  # a card, a driver or a pynvml from before there was MIG
        return False


def _number(answer: Any) -> int:
    return int(getattr(answer, "value", answer))  # pynvml hands out one of them as ctypes made it
