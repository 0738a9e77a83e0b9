"""The base classes of devices, gauges and launchers: all that stands between torchstone and a machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.core.schema.message import Event, Request
from torchstone.core.schema.submission import Job, ShareState, Submission


class HalfSubmitted(UsageError):
    """The shares are handed over as `job_id`; what should follow them was refused."""

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(why)
        self.job_id = job_id


class Node(msgspec.Struct, frozen=True):
    """One machine of an allocation. `command`: what goes before a command that shall run there; it ends with it."""

    name: str
    address: str
    command: tuple[str, ...] = ()


class Cluster(ABC):
    """clusters/<name>.py: has the shares of a plan carried out, each by `torchstone run --plan FILE --share N`.

    `takes`: the names of what it may be asked for (`Submission.wanted`). `spreads`: a share may have several nodes.
    """

    describes: str
    takes: tuple[str, ...]
    spreads: bool

    @abstractmethod
    def allocation(self) -> Sequence[Node]:
        """Return the nodes of the allocation that this process is in, its own first; none where it is in none.

        Raises MissingError where the cluster does not answer.
        """

    @abstractmethod
    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:
        """Return the texts that are handed over, by file name: what --dry-run prints. `folder`: where they will lie."""

    @abstractmethod
    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
        """Have shares carried out by the scripts in `folder`; return the job's name, at once or when all have ended.

        Raises MissingError where there is no such cluster here, UsageError for what it refuses, in its words, and
        HalfSubmitted where the shares are on their way all the same.
        """

    @abstractmethod
    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:
        """Return what is known of each share of a job; one that nothing is known of is left out."""


# ── devices/ ────────────────────────────────────────────────────────────────────────────────────────────────


class Stopwatch(Protocol):
    """Times steps that are issued back to back, without synchronising between them.

    `asynchronous`: laps are the device's own, which may run behind the host. `reads`: which clock, in words.
    """

    asynchronous: bool
    reads: str

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


class Vendor(ABC):
    """devices/<kind>.py: finds and opens devices of one kind."""

    describes: str

    @abstractmethod
    def probe(self) -> Sequence[DeviceInfo]:
        """Return the devices of this kind; empty when there is none. Only called in a probe process.

        Raises Unsupported, with the words of the driver, where a device is there and does not start.
        """

    @abstractmethod
    def missing(self) -> str:
        """Say what was looked for and what was found instead. Only called where `probe` found nothing."""

    @abstractmethod
    def open(self, index: int) -> Device:
        """Open a device in the process of a trial. Raises Unsupported if it is not there."""

    def seen(self) -> Sequence[str]:
        """Return each device of this kind that the driver or the kernel shows without torch, in words.

        Those its user hides are none. If one is here and none can be used, no other kind is measured in its place.
        Never raises.
        """
        return ()

    def slices(self) -> Mapping[str, str]:
        """Return the UUID of each slice of a divided card (MIG) with its name and card, hidden ones too."""
        return {}

    def pretend(self, info: DeviceInfo) -> Device:
        """Return a device that is not here, to be asked what it objects to and prefers. May import torch.

        Raises Unsupported where that is not known.
        """
        raise Unsupported(f"{info.kind}:{info.index}: the properties of an absent device are not known")


# ── telemetry/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Gauge(ABC):
    """One quantity that can be read while a trial runs. `cumulative` gauges count up (energy, CPU time).

    `between_windows`: reading it disturbs, and it is read when no window is measured. `evidence`: it tells what else
    the machine does, and is read ten times a second while one is.
    """

    metric: str
    cumulative: bool
    between_windows: bool = False
    evidence: bool = False

    @abstractmethod
    def read(self) -> float | None:
        """Return the present value in the metric's unit, or None if it cannot be read just now. Never raises."""

    def tick_s(self) -> float | None:
        """Return the time in seconds between two moves of an energy counter; None where it is not known.

        Called after a trial: it may wait.
        """
        return None


class TelemetrySource(ABC):
    """telemetry/<name>.py: gauges the controller reads while a trial runs in another process."""

    describes: str

    @abstractmethod
    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the gauges there are for that process and device; what is absent is not in the list. Never raises."""

    def refusal(self) -> str | None:
        """Return why this system keeps it from reading anything, or None: it does not. Never raises."""
        return None

    def room(self, device: DeviceInfo) -> Room | None:
        """Return what that device has left for one more process, or None: it does not know the device. Never raises."""
        return None


# ── launchers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class LiveTrial(Protocol):
    """A request being carried out in another process. `facts`: what is to be known of how it was started."""

    pid: int
    facts: Facts

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


class Launcher(ABC):
    """launchers/<name>.py: starts the processes of trials."""

    describes: str

    @abstractmethod
    def open(self, preload: Sequence[str], heap: str, folder: Path | None = None, *, pin_threads: bool = False) -> None:
        """Begin to get ready to start trials of these models (`scheme:name`) with that heap setting.

        `folder`: where they work, and whose modules they find first; None: where the controller works. `pin_threads`:
        OpenMP's threads stay on a logical core each.
        """

    @abstractmethod
    def ready(self) -> None:
        """Wait until what `open` began is done. `start` does so too."""

    @abstractmethod
    def start(self, request: Request) -> LiveTrial:
        """Carry out one request in a fresh process."""

    @abstractmethod
    def close(self) -> None:
        """End what `open` began."""
