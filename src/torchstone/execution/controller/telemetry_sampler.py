"""Reads gauges on a period, in the controller's own process, and keeps them as Series."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.errors import MissingError
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import RAW, Pool
from torchstone.core.schema.trial import Series
from torchstone.execution.timing.clock import Clock
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Gauge

_ticks_s: dict[tuple[str, str, DeviceInfo | None], float | None] = {}  # of those asked so far: it takes a while


class TelemetrySampler:
    """The gauges of one trial. `read` takes one reading of each, at seconds since `began_s`.

    `others`: devices that the trial's further ranks use: their own gauges are read too. `whole`: all ranks are on this
    node; else what adds up over ranks (power, energy, memory) is left out, since a part of it would be taken for all.
    """

    def __init__(
        self,
        pid: int,
        device: DeviceInfo | None,
        began_s: float,
        clock: Clock,
        others: Sequence[DeviceInfo] = (),
        *,
        whole: bool = True,
    ) -> None:
        self._began_s = began_s
        self._device = device
        self._clock = clock
        every = registry.names("telemetry")
        self._gauges = [(name, gauge) for name in every for gauge in _open(name, pid, device)]
        self._devices: list[DeviceInfo | None] = [device] * len(self._gauges)
        for other in others:
            own = [(n, gauge) for n in every for gauge in _open(n, pid, other) if gauge.metric.startswith("device_")]
            self._gauges += own
            self._devices += [other] * len(own)
        if not whole:
            # What adds up over ranks is left out, but for the CPU time that is compared with this node's own.
            metrics = [gauge.metric for _, gauge in self._gauges]
            kept = [n for n, m in enumerate(metrics) if RAW[m].over_ranks != Pool.SUM or m == "process_cpu_s"]
            self._gauges, self._devices = [self._gauges[n] for n in kept], [self._devices[n] for n in kept]
        self._at_s: list[list[float]] = [[] for _ in self._gauges]
        self._values: list[list[float]] = [[] for _ in self._gauges]

    def read(self, *, in_window: bool = False, evidence_only: bool = False) -> None:
        """Read every gauge once; one that has nothing to say adds no point.

        `in_window`: a window is being measured, so those are left alone whose reading would hold it up.
        `evidence_only`: only those that tell what else the machine does.
        """
        for (_, gauge), at_s, values in zip(self._gauges, self._at_s, self._values, strict=True):
            if in_window and gauge.between_windows:
                continue
            if evidence_only and not gauge.evidence:
                continue
            value = gauge.read()
            if value is not None:
                at_s.append(round(self._clock() - self._began_s, 6))
                values.append(value)

    def series(self) -> tuple[Series, ...]:
        """Return what was read; a gauge that never answered is absent."""
        return tuple(
            Series(gauge.metric, source, tuple(at_s), tuple(values), _name_of(gauge, device))
            for (source, gauge), device, at_s, values in zip(
                self._gauges, self._devices, self._at_s, self._values, strict=True
            )
            if values
        )

    def facts(self) -> Facts:
        """Return how often the device's energy counter moves, in seconds, where it can say so.

        To be called when the trial has ended: the first time for a device takes some tenths of a second.
        """
        for source, gauge in self._gauges:
            asked = source, gauge.metric, self._device
            if asked not in _ticks_s:
                _ticks_s[asked] = gauge.tick_s()
            if (tick_s := _ticks_s[asked]) is not None:
                return Facts(energy_tick_s=round(tick_s, 6))
        return Facts()


def _name_of(gauge: Gauge, device: DeviceInfo | None) -> str | None:
    return f"{device.kind}:{device.index}" if device is not None and gauge.metric.startswith("device_") else None


def _open(name: str, pid: int, device: DeviceInfo | None) -> Sequence[Gauge]:
    try:
        gauges: Sequence[Gauge] = registry.load("telemetry", name).open(pid, device)
    except MissingError:  # a third party's source that does not import: `torchstone list telemetry` says why
        return ()
    return gauges
