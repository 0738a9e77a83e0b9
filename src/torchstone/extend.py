"""To extend torchstone, read this file: the Protocol of every plug-in family, five methods at most each.

A plug-in is one file in its family's folder; the file's name is the plug-in's name; the file ends with
`PLUGIN: <Protocol> = <Class>()`. Third parties use the entry-point group `torchstone.<family>`.

No plug-in imports torch or another heavy library at module top: the controller loads plug-ins to ask what they
are, and must never import torch. What starts a library is done inside `probe`, `open`, `load` or `prepare`, which
only the process of a trial calls.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torchstone.terms.axis import Scalar
from torchstone.terms.batch import Batch, DataCard
from torchstone.terms.case import Case, Workload
from torchstone.terms.estimate import Finding
from torchstone.terms.machine import DeviceInfo
from torchstone.terms.message import Event, Request
from torchstone.terms.model import InputSpec, LoadedModel, ModelCard
from torchstone.terms.run import Run
from torchstone.terms.search import Brief, Point, Probe, Reading

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


class Vendor(Protocol):
    """devices/<kind>.py: finds and opens devices of one kind."""

    describes: str

    def probe(self) -> Sequence[DeviceInfo]:
        """Return the devices of this kind; empty when there is none. Never raises; only called in a probe process."""

    def missing(self) -> str:
        """Say what was looked for and what was found instead. Only called where `probe` found nothing."""

    def open(self, index: int) -> Device:
        """Open a device in the process of a trial. Raises Unsupported if it is not there."""


# ── telemetry/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Gauge(Protocol):
    """One quantity that can be read while a trial runs. `cumulative` gauges count up (energy, CPU time)."""

    metric: str
    cumulative: bool

    def read(self) -> float | None:
        """Return the present value in the metric's unit, or None if it cannot be read just now. Never raises."""


class TelemetrySource(Protocol):
    """telemetry/<name>.py: gauges the controller reads while a trial runs in another process."""

    describes: str

    def open(self, pid: int | None, device: DeviceInfo | None) -> Sequence[Gauge]:
        """Return the gauges there are for that process and device; what is absent is not in the list. Never raises."""


# ── models/ ─────────────────────────────────────────────────────────────────────────────────────────────────


class ModelSource(Protocol):
    """models/<scheme>.py: used as `<scheme>:<name>`."""

    describes: str

    def names(self) -> Iterable[tuple[str, str]]:
        """Return (name, one line) of models worth listing."""

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        """Describe a model without torch. Raises UsageError if there is no such model or an option is wrong."""

    def preload(self, name: str) -> None:
        """Import what `load` will need, running no parallel operation: called in the template before it forks."""

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        """Build the model on the CPU. Raises Unsupported, or UsageError where the user's own model is at fault."""


# ── data/ ───────────────────────────────────────────────────────────────────────────────────────────────────


class Samples(Protocol):
    """A data set in the process of a trial: what torch calls a map-style Dataset, of dictionaries of tensors."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return one item: `input_ids`, `attention_mask`, `pixel_values` or `features`, and `labels`."""


class DataSource(Protocol):
    """data/<scheme>.py: used as `<scheme>` or `<scheme>:<path>`."""

    describes: str

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        """Read enough to know that it is sound, without torch. Raises UsageError naming file and row if it is not."""

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        """Open the data for a model with that input."""


# ── engines/ ────────────────────────────────────────────────────────────────────────────────────────────────


class Batches(Protocol):
    """An open feed. `queue`: batches that may lie ready in it, so that a slow loader is not felt at first.

    `turn`: how many processes take turns in delivering (1: none do). Batches then come in bursts of as many.
    """

    queue: int
    turn: int
    next: Callable[[], Batch]

    def close(self) -> None:
        """End the processes of a loader."""


Mark = Callable[[str], None]  # told the name of a phase where it ends


class Prepared(Protocol):
    """A model, an optimizer and a device, ready to step. `facts`: what was set without being asked for."""

    facts: Mapping[str, Scalar]

    def step(self, pull: Callable[[], Batch], mark: Mark) -> None:
        """Do one step; `pull` gives the next batch. Call `mark` with its name where a phase (terms/phase.py) has ended.

        What is marked after the last phase, or not at all, is the step's rest. Measured windows pass a mark that does
        nothing; the pass that tells where the time goes passes one that reads the stopwatch. Never wait for it.
        """

    def results(self) -> Mapping[str, Sequence[float]]:
        """Return raw metrics known only to the engine (loss, fingerprint). Called after the last window."""

    def flops(self, batch: Batch) -> tuple[float | None, str | None]:
        """Count the operations of one step outside timing, and say what could not be counted."""


class Engine(Protocol):
    """engines/<task>.py: one task, as a user would write it."""

    describes: str
    axes: tuple[str, ...]

    def preload(self) -> None:
        """Import what `prepare` will need, running no parallel operation: called in the template before it forks."""

    def windows(self, configuration: Mapping[str, Scalar]) -> Sequence[str]:
        """Return the windows to measure in turn: "latency" (closed loop) or "throughput" (back to back)."""

    def open_batches(
        self, case: Case, model: LoadedModel, samples: Samples | None, device: Device, seed: int
    ) -> Batches:
        """Open the feed; without samples, of the model's example. Raises Unsupported if there is too little data."""

    def prepare(self, case: Case, model: LoadedModel, device: Device) -> Prepared:
        """Move the model to the device and set it up. Raises Unsupported with the reason."""


# ── searchers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Searcher(Protocol):
    """searchers/<name>.py: says which Configuration to try next."""

    describes: str

    def search(self, brief: Brief) -> Generator[Probe, Reading, Sequence[Point]]:
        """Yield one Probe after another, be sent its Reading, and return the points worth a final duel, best first.

        Equal readings lead to equal probes: `resume` sends those of the record again, and goes on where they end.
        """


# ── launchers/ ──────────────────────────────────────────────────────────────────────────────────────────────


class LiveTrial(Protocol):
    """A request being carried out in another process."""

    pid: int

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are events, or when the process has ended."""

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

    def open(self, preload: Sequence[str], heap: str) -> None:
        """Get ready to start trials of these models (`scheme:name`) with that heap setting."""

    def start(self, request: Request) -> LiveTrial:
        """Carry out one request in a fresh process."""

    def close(self) -> None:
        """End what `open` began."""


# ── checks/ ─────────────────────────────────────────────────────────────────────────────────────────────────


class Check(Protocol):
    """checks/<name>.py: looks at a finished run."""

    describes: str

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield what is wrong, with advice that knows what the user already did."""


# ── exporters/ ──────────────────────────────────────────────────────────────────────────────────────────────


class Exporter(Protocol):
    """exporters/<format>.py: writes a stored run for other programs. `folder`: where, below the output folder."""

    describes: str
    suffix: str
    folder: str

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        """Write the run (whole formats) or its rows (tables: one mapping a row, equal keys) to `path`."""
