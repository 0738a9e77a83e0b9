"""Figures beyond what the device has: more memory than the card, more than 100 % utilization, a clock of a THz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.core.figures import figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_ALLOWANCE = 1.02  # drivers keep some of the card, and round
_MEMORIES = ("allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
             "device_memory_used_bytes")  # fmt: skip
# No device of 2026 comes near, and a unit that slipped passes them by a factor of 1,000.
_MOST = {
    "device_clock_hz": (5e9, "Hz", "probably MHz read as kHz"),
    "device_temperature_c": (150.0, "°C", "outside any chip's operating range"),
}  # fmt: skip
_LARGEST, _SMALLEST = 4 * 2**40, 64 * 2**20
_COLDEST_C = -60.0


class BeyondDevice:
    """Fires where a figure is larger than its device allows; where the card itself is too large, its unit slipped."""

    describes = "memory, utilization, clock or temperature above what the device can have"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an error for each figure that its device cannot have, a warning for a card that there cannot be."""
        for case_id, case, trials in sound(run):
            device = run.head.machine.device(case.placement.device, case.placement.index)
            values = [figures(trial).values for trial in trials]
            seen = dict.fromkeys(message for each in values for message in _beyond(case, device, each))
            advice = "check the unit (MB, MiB or bytes; percent or fraction) and the name of the device"
            for message in _odd_card(case, device):
                yield Finding("beyond_device", Severity.WARNING, message, advice, case_id)
            for message in (*_host(run, values), *seen):
                yield Finding("beyond_device", Severity.ERROR, message, advice, case_id)


def _odd_card(case: Case, device: DeviceInfo | None) -> Iterator[str]:
    if device is None or device.memory_bytes is None or case.placement.device in ("cpu", "mps"):
        return
    if not _SMALLEST <= device.memory_bytes <= _LARGEST:
        yield f"{device.name} is recorded with {quantity(device.memory_bytes, 'bytes')} of memory: wrong unit?"


def _beyond(case: Case, device: DeviceInfo | None, values: Mapping[str, float]) -> Iterator[str]:
    own = device is not None and case.placement.device not in ("cpu", "mps")  # memory that is the device's alone
    if device is not None and own and _SMALLEST <= (device.memory_bytes or 0) <= _LARGEST:
        room = (device.memory_bytes or 0) * case.placement.devices
        held = {name: values[name] for name in _MEMORIES if values.get(name, 0.0) > _ALLOWANCE * room}
        for name, value in held.items():
            yield f"{name} is {quantity(value, 'bytes')}, and {device.name} has {quantity(room, 'bytes')}"
    share = values.get("device_utilization", 0.0)
    if share > 1.0 + 1e-9:
        yield f"utilization is {percent(share)}: a percentage was probably read as a fraction"
    for name, (most, unit, why) in _MOST.items():
        if values.get(name, 0.0) > most:
            yield f"{name} is {quantity(values[name], unit)}: {why}"
    if values.get("device_temperature_c", 0.0) < _COLDEST_C:
        yield f"device_temperature_c is {values['device_temperature_c']:g} °C"


def _host(run: Run, each: list[dict[str, float]]) -> Iterator[str]:
    room = run.head.machine.host.memory_bytes
    most = max((values.get("peak_rss_bytes", 0.0) for values in each), default=0.0)
    if room and most > _ALLOWANCE * room:
        yield f"peak_rss_bytes is {quantity(most, 'bytes')}, and the host has {quantity(room, 'bytes')}"


PLUGIN: Check = BeyondDevice()
