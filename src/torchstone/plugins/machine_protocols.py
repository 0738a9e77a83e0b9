"""The Protocols of devices, gauges and launchers: all that stands between torchstone and a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.message import Event, Request

# ── devices/ ────────────────────────────────────────────────────────────────────────────────────────────────


class Stopwatch(Protocol):
    """Times steps that are issued back to back, without synchronising between them.

    `asynchronous`: laps are the device's own, which may run behind the host.
    """

    asynchronous: bool

    def start(self) -> None:
        """Begin: everything issued before is finished, the first lap starts now."""

    def lap(self) -> None:
        """Mark the end of one lap and the start of the next. Costs a microsecond."""

    def hold(self, most_s: float, *, read: bool) -> None:
        """Wait where the host has issued more laps than take the device `most_s` seconds; two at least may be issued.

        `read`: `recent` is going to be asked for all laps; what is known of them is read here, a few at a time. Only a
        stopwatch that is asynchronous is ever held.
        """

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` (or fewer) laps already known, in seconds, without waiting for the device."""

    def stop(self) -> Sequence[float]:
        """Wait for the device and return every lap in seconds."""


class Device(Protocol):
    """An open device, in the process of a trial."""

    torch_device: Any

    def synchronize(self) -> None:
        """Wait until everything issued is done."""

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch that reads device events where the device has them, the host clock where it does not."""

    def memory(self) -> Mapping[str, int]:
        """Return raw metrics (allocated_bytes, peak_allocated_bytes, …) that the device knows; absent is absent."""

    def objection(self, axis: str, value: Scalar) -> str | None:
        """Say why this device cannot do that value of that axis, or None if it can."""

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        """Return what somebody who knows the device would set for the sake of speed, and why; None: PyTorch's default.

        Asked of `threads` (a number) and of `channels_last` (a truth), where they are left to the device.
        """


class Vendor(Protocol):
    """devices/<kind>.py: finds and opens devices of one kind."""

    describes: str

    def probe(self) -> Sequence[DeviceInfo]:
        """Return the devices of this kind; empty when there is none. Only called in a probe process.

        Raises Unsupported, with the words of the driver, where a device is there and does not start.
        """

    def missing(self) -> str:
        """Say what was looked for and what was found instead. Only called where `probe` found nothing."""

    def open(self, index: int) -> Device:
        """Open a device in the process of a trial. Raises Unsupported if it is not there."""


@runtime_checkable
class Sighted(Protocol):
    """What a Vendor is beside, if it can tell what is in the machine without torch."""

    def seen(self) -> Sequence[str]:
        """Return each device of this kind that the driver or the kernel shows, in words; those its user hides are none.

        Where there is one, and none can be used, nobody shall measure another device in its place. Never raises.
        """


@runtime_checkable
class Sliced(Protocol):
    """What a Vendor is beside, if its cards may be divided into devices of their own (NVIDIA's MIG)."""

    def slices(self) -> Mapping[str, str]:
        """Return the UUID of every slice with its name and card, whether it is shown to this process or not."""


@runtime_checkable
class Pretending(Protocol):
    """What a Vendor is beside, if it can tell of a device that is not here what it would object to and prefer."""

    def pretend(self, info: DeviceInfo) -> Device:
        """Return that device: nothing can be measured on it. Only called in a process that may import torch."""


# ── telemetry/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Gauge(Protocol):
    """One quantity that can be read while a trial runs. `cumulative` gauges count up (energy, CPU time).

    One that also has `between_windows`, and has it true, is read when no window is measured: reading it disturbs.
    """

    metric: str
    cumulative: bool

    def read(self) -> float | None:
        """Return the present value in the metric's unit, or None if it cannot be read just now. Never raises."""


@runtime_checkable
class Ticks(Protocol):
    """What a Gauge is beside, if it counts energy and can say how often its counter moves."""

    def tick_s(self) -> float | None:
        """Return the time between two moves in seconds, or None: it stands still. Called after a trial: it may wait."""


class TelemetrySource(Protocol):
    """telemetry/<name>.py: gauges the controller reads while a trial runs in another process."""

    describes: str

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the gauges there are for that process and device; what is absent is not in the list. Never raises."""


@runtime_checkable
class Refusing(Protocol):
    """What a TelemetrySource is beside, if this system may keep it from reading anything, and says why."""

    def refusal(self) -> str | None:
        """Return why nothing can be read here, or None: it can. Never raises."""


@runtime_checkable
class Roomy(Protocol):
    """What a TelemetrySource is beside, if it knows how much of a device is left."""

    def room(self, device: DeviceInfo) -> Room | None:
        """Return what that device has left for one more process, or None: it does not know the device. Never raises."""


# ── launchers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class LiveTrial(Protocol):
    """A request being carried out in another process. `facts`: what is to be known of how it was started."""

    pid: int
    facts: Mapping[str, Scalar]

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are events, or when the process has ended.

        What is written to it reaches the process: that is how one that takes turns (ab/) is told its turn.
        """

    def events(self) -> Sequence[Event] | None:
        """Return the events that have arrived; None when the process has ended and all have been returned."""

    def ask_where(self) -> None:
        """Ask a process that hangs where it is: a Stack among its events is the answer, if it can give one."""

    def kill(self) -> None:
        """End the process and its children at once."""

    def ending(self) -> str | None:
        """Wait for the end, end what it started, and return what was wrong (the signal, the exit code), or None."""


class Launcher(Protocol):
    """launchers/<name>.py: starts the processes of trials."""

    describes: str

    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Begin to get ready to start trials of these models (`scheme:name`) with that heap setting.

        `folder`: where they work, and whose modules they find first; None: where the controller works. `pin_threads`:
        OpenMP's threads stay on a logical core each.
        """

    def ready(self) -> None:
        """Wait until what `open` began is done. `start` does so too."""

    def start(self, request: Request) -> LiveTrial:
        """Carry out one request in a fresh process."""

    def close(self) -> None:
        """End what `open` began."""
