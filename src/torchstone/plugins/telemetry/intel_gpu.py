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
from torchstone.plugins.telemetry._gauges import FunctionGauge, KeptOpen, file_gauge, first_line, present

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
        """Return the gauges of an Intel GPU; none for any other."""
        if device is None or device.kind != "xpu":
            return ()
        cards = [card for card in sorted(self._drm.glob("card[0-9]*")) if first_line(card / "device/vendor") == _INTEL]
        cards = [card for card in cards if "-" not in card.name]  # card0-HDMI-A-1 is a connector
        if device.bus_id is not None:
            cards = [card for card in cards if _slot(card) == device.bus_id.lower()[-12:]]
        return _gauges(cards[0]) if len(cards) == 1 else ()


def _gauges(card: Path) -> Sequence[FunctionGauge]:
    sensors = next(iter(sorted(card.glob("device/hwmon/hwmon*"))), card / "hwmon")
    found: list[FunctionGauge] = []
    if (file := _first(sensors, _ENERGY)) is not None:
        found.append(_counter(file))
    for metric, folder, names, scale in (
        ("device_power_limit_w", sensors, _LIMIT, 1e-6),
        ("device_temperature_c", sensors, _TEMPERATURE, 1e-3),
    ):
        if (file := _first(folder, names)) is not None:
            found.append(file_gauge(metric, file, scale))
    clock = next((card / name for name in _CLOCK if first_line(card / name).isdigit()), None)
    return [*present(found), *([_clock(clock)] if clock is not None else [])]


def _clock(path: Path) -> FunctionGauge:
    """Return the gauge of the clock, which is 0 while the card sleeps (RC6), as before a trial: then there is none."""
    file = KeptOpen(path)

    def read() -> float | None:
        return (file.number() or 0) * _HERTZ_A_MEGAHERTZ or None

    return FunctionGauge("device_clock_hz", read)


def _counter(path: Path) -> FunctionGauge:
    """Return the gauge of an energy counter, which the driver keeps from wrapping (64 bits of µJ)."""
    file = KeptOpen(path)

    def read() -> float | None:
        value = file.number()
        return None if value is None else value * 1e-6

    return FunctionGauge("device_energy_j", read, cumulative=True)


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of the files that holds a number above 0: a limit that is not set is 0."""
    return next((folder / n for n in names if first_line(folder / n).isdigit() and int(first_line(folder / n))), None)


def _slot(card: Path) -> str:
    try:
        lines = (card / "device/uevent").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # gone while we looked
        return ""
    return next((line.partition("=")[2].lower()[-12:] for line in lines if line.startswith("PCI_SLOT_NAME=")), "")


PLUGIN: TelemetrySource = IntelGpu()
