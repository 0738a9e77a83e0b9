"""Energy of the CPU packages, from the counters (RAPL) that Linux shows under /sys/class/powercap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Gauge, TelemetrySource
from torchstone.plugins.telemetry._gauges import FunctionGauge, KeptOpen, first_line, present


class Rapl(TelemetrySource):
    """Whole packages only: cores and uncore are parts of a package, psys contains it, and -mmio counts it again."""

    describes = "energy of the CPU packages (RAPL)"

    def __init__(self, root: Path = Path("/sys/class/powercap")) -> None:
        self._root = root

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the gauge if every package can be read: most systems let only root."""
        zones = [zone for zone in self._root.glob("intel-rapl:*") if first_line(zone / "name").startswith("package-")]
        ranges = [first_line(zone / "max_energy_range_uj") for zone in zones]
        if not zones or not all(text.isdigit() for text in ranges):
            return ()
        packages = [_Package(zone, int(text)) for zone, text in zip(zones, ranges, strict=True)]
        return present((FunctionGauge("package_energy_j", lambda: _sum(packages), cumulative=True),))


class _Package:
    """One counter, unwrapped: right as long as it is read more often than it wraps (a minute at the very least)."""

    def __init__(self, zone: Path, range_uj: int) -> None:
        self._file = KeptOpen(zone / "energy_uj")
        self._range_uj = range_uj
        self._last_uj = 0
        self._wrapped_uj = 0

    def read(self) -> int | None:
        now_uj = self._file.number()
        if now_uj is None:
            return None
        if now_uj < self._last_uj:
            self._wrapped_uj += self._range_uj
        self._last_uj = now_uj
        return now_uj + self._wrapped_uj


def _sum(packages: Sequence[_Package]) -> float | None:
    total_uj = 0
    for package in packages:
        now_uj = package.read()
        if now_uj is None:
            return None  # the others alone would look like a fall
        total_uj += now_uj
    return total_uj * 1e-6


PLUGIN: TelemetrySource = Rapl()
