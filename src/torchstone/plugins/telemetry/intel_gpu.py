"""Intel GPUs, from the files that the i915 and xe drivers show under /sys: no library and no root.

Files: Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and sysfs-driver-intel-xe-hwmon of Linux (energy in µJ,
power limits in µW, temperature in m°C); frequencies under gt/ (i915) and tile0/ (xe). Utilization and memory in use
have no file: the drivers count them by client, or in a PMU that asks for root.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import FunctionGauge, KeptOpen, card_folder, file_gauge, first_line, present

_INTEL = "0x8086"
_HERTZ_A_MEGAHERTZ = 1e6
# Of the card, then of the package: xe shows both, i915 the card's alone (energy1).
_ENERGY = ("energy1_input", "energy2_input")
_LIMIT = ("power1_cap", "power1_max", "power2_cap", "power2_max")
_TEMPERATURE = ("temp1_input", "temp2_input", "temp3_input")
_CLOCK = ("gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz", "device/tile0/gt0/freq0/act_freq")


class IntelGpu(TelemetrySource):
    """Finds the card by its PCI address; without one it answers only where there is a single card."""

    describes = "Intel GPUs: energy, power limit, temperature, clock (i915 and xe files in /sys)"

    def __init__(self, drm: Path = Path("/sys/class/drm")) -> None:
        self._drm = drm

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        if device is None or device.kind != "xpu":
            return ()
        card = card_folder(self._drm, _INTEL, device.bus_id)
        return _gauges(card) if card is not None else ()


def _gauges(card: Path) -> Sequence[FunctionGauge]:
    sensors = next(iter(sorted(card.glob("device/hwmon/hwmon*"))), card / "hwmon")
    found: list[FunctionGauge] = []
    for metric, names, scale in (
        ("device_energy_j", _ENERGY, 1e-6),  # the driver keeps it from wrapping (64 bits of µJ)
        ("device_power_limit_w", _LIMIT, 1e-6),
        ("device_temperature_c", _TEMPERATURE, 1e-3),
    ):
        # The first that holds a number above 0: a limit that is not set is 0.
        values = ((sensors / name, first_line(sensors / name)) for name in names)
        if (file := next((path for path, text in values if text.isdigit() and int(text)), None)) is not None:
            found.append(file_gauge(metric, file, scale, cumulative=metric == "device_energy_j"))
    clock = next((card / name for name in _CLOCK if first_line(card / name).isdigit()), None)
    return [*present(found), *([_clock(clock)] if clock is not None else [])]


def _clock(path: Path) -> FunctionGauge:
    """Return the gauge of the clock, which is 0 while the card sleeps (RC6), as before a trial: then there is none."""
    file = KeptOpen(path)

    def read() -> float | None:
        return (file.number() or 0) * _HERTZ_A_MEGAHERTZ or None

    return FunctionGauge("device_clock_hz", read)


PLUGIN: TelemetrySource = IntelGpu()
