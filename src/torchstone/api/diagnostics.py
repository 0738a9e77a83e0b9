"""`torchstone.Diagnostics`: one model at hand over batch sizes and devices, with pictures and a report."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

import msgspec

from torchstone.analysis.advice import rules
from torchstone.analysis.summary import RunSummary
from torchstone.api.bench import Bench
from torchstone.api.former_words import called_elsewhere
from torchstone.api.keeping import Keeping
from torchstone.api.recording import Opened, as_html, default_folder, device_in_words, frame_of, keep, trial_of
from torchstone.core import units
from torchstone.core.charts.drawing import draw, import_vl_convert
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.case import Case
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.metric import RAW
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.inspection import inspect
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.outcome import ended_by
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Gauge
from torchstone.plugins.protocols import fixed_axes
from torchstone.report.document import Chart, Column, Document, Fields, Part, Role, Section, Table, Text, paragraphs
from torchstone.report.documents import sweep as charts
from torchstone.report.documents.diagnosis import FILE
from torchstone.report.documents.sweep import Row, Swept, sweep_document, sweep_rows
from torchstone.report.rendering import write_markdown
from torchstone.workflows.diagnose.measured_diagnosis import diagnosed_from_record
from torchstone.workflows.diagnose.target import of_own_program


def cross_entropy(output: Any, target: Any) -> Any:
    """Return the mean cross-entropy of logits (items, classes, …) and class numbers. Raises UsageError for others.

    Any other loss would be a guess: targets of real numbers have many.
    """
    from torch.nn import functional

    logits = getattr(output, "logits", output)  # transformers' models answer with an object
    kind = str(target.dtype).removeprefix("torch.")
    if kind != "int64" or getattr(logits, "dim", int)() < 2:
        why = "cross-entropy is the default only for class scores with integer class targets"
        raise UsageError(f"Diagnostics: pass loss_fn=…: {why}; these are {kind} of shape {tuple(target.shape)}")
    return functional.cross_entropy(logits, target)


_GOES_ON = (Status.OUT_OF_MEMORY, Status.UNSUPPORTED)
_USUAL_SIZES = (8, 16, 32, 64, 128)


def sweep(
    parts: Mapping[str, Any],
    title: str,
    batch_sizes: Sequence[int] | None,
    devices: Sequence[Any] | None,
    procedure: Procedure,
    folder: Path,
    kept: Keeping,
) -> Swept:
    """Measure and record. Raises UsageError where nothing can be measured, and what the user's own code raises."""
    bench = Bench("Diagnostics", "train", parts, title, procedure, kept, "loss_fn", cross_entropy)
    opened, skipped = _open(devices)
    sizes = _sizes(bench, batch_sizes)
    cases = [(bench.case(one.placement, {"batch_size": size}), one) for one in opened for size in sizes]
    slots = tuple(Slot(case, number) for number in range(procedure.repetitions) for case in range(len(cases)))
    taker = _Taker(bench, cases)
    summary = keep(Plan(tuple(case for case, _ in cases), slots), procedure, title, folder, taker.take)
    return Swept(summary, skipped)


class _Taker:
    """Takes one trial after another. One that runs out of memory, or cannot be done, has its outcome and no figures."""

    def __init__(self, bench: Bench, cases: Sequence[tuple[Case, Opened]]) -> None:
        self._bench, self._cases = bench, cases
        self._ended: dict[int, Outcome] = {}

    def take(self, slot: Slot, order: int) -> Trial:
        """Take the trial of a slot; a case that failed once is not tried again."""
        case, opened = self._cases[slot.case]
        began_s = system_clock()
        outcome = self._ended.get(slot.case) or self._impossible(case)
        if outcome is None:
            try:
                return self._bench.take(case, opened, slot, order)
            except Exception as error:
                outcome = ended_by(error).outcome
                if outcome.status not in _GOES_ON:
                    raise
        self._ended[slot.case] = outcome
        return trial_of(case, slot.number, order, began_s, system_clock(), {"outcome": outcome})

    def _impossible(self, case: Case) -> Outcome | None:
        has = fixed_axes(self._bench.model.samples).get("batch_size")
        if has is None or case.configuration["batch_size"] == has:
            return None
        why = f"the batches are used as they come, with {has} items each; pass the Dataset to vary the batch size"
        return Outcome(Status.UNSUPPORTED, why)


def _sizes(bench: Bench, asked: Sequence[int] | None) -> Sequence[int]:
    if asked is None:
        own = fixed_axes(bench.model.samples).get("batch_size")
        return _USUAL_SIZES if own is None else (int(own),)
    sizes = tuple(dict.fromkeys(asked))
    if not sizes:
        raise UsageError("Diagnostics.run: batch_sizes is empty; give some, for example [8, 16, 32, 64, 128]")
    return sizes


def _open(devices: Sequence[Any] | None) -> tuple[list[Opened], dict[str, str]]:
    """Return the devices that are here, and why others are not. None: the CPU, and the accelerator if there is one."""
    opened: dict[str, Opened] = {}
    skipped: dict[str, str] = {}
    kinds = ("auto", *registry.names("devices"))
    for word in ("cpu", "auto") if devices is None else map(str, devices):  # torch.device("cuda", 0) is "cuda:0"
        if word.partition(":")[0] not in kinds:
            raise unknown("device", word, kinds)
        try:
            one = device_in_words(word)
        except UsageError as fault:
            skipped[word] = str(fault)
            continue
        opened.setdefault(str(one.placement), one)
    if not opened:
        why = "; ".join(skipped.values()) or "devices is empty"
        raise UsageError(f"Diagnostics.run: no device to measure on: {why}")
    return list(opened.values()), skipped


# `torchstone.Diagnostics` and `run_kaggle_analysis`: why a training is as fast as it is, from a notebook.
#
# diagnostics = torchstone.Diagnostics(model, loss_fn, optimizer)
# diagnostics.run(loader, batch_sizes=[8, 32, 128], devices=["cpu", "cuda"])
# print(diagnostics.frame())
# diagnostics.plot_time_breakdown()
# print(diagnostics.report())

PICTURES: dict[str, Callable[[Sequence[Row], str], Picture]] = {
    "throughput_vs_batch_size.png": charts.throughput,
    "time_breakdown.png": charts.time_breakdown,
    "memory_usage.png": charts.memory,
}

_CALLED_ELSEWHERE = {
    "run_diagnostics": "run(loader, batch_sizes, iterations, devices)",
    "get_results": "frame()",
    "generate_bottleneck_report": "report()",
}


class Diagnostics:
    """Measures training steps of a model at hand over batch sizes and devices, in this process.

    Nothing is imported anew, so models and data sets of a notebook will do. Everything is left as it was, as
    `torchstone.measure` leaves it and at the same cost, and every trial begins with the same weights. Trials share the
    process: for intervals that hold between processes, `torchstone run` has fresh ones.
    """

    def __init__(
        self,
        model: Any,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: Any = None,
        *,
        name: str | None = None,
        output_dir: str | Path | None = None,
    ) -> None:
        """Keep what to measure.

        loss_fn: loss(output, targets) → scalar tensor; None where the model returns an object with a `.loss` for
            batches that are mappings with labels, or for cross-entropy where targets are class numbers. optimizer: an
            optimizer, or what makes one of the parameters; None: AdamW. output_dir: where the record, pictures and
            report go ($TORCHSTONE_OUTPUT, or outputs).
        """
        self._model, self._loss, self._optimizer = model, loss_fn, optimizer
        self._title = name or type(model).__name__
        self._folder = Path(output_dir) if output_dir is not None else default_folder()
        self._swept: Swept | None = None

    @called_elsewhere(dataloader="loader", num_iterations="iterations")
    def run(
        self,
        loader: Any,
        batch_sizes: Sequence[int] | None = None,
        iterations: int = 50,
        devices: Sequence[Any] | None = None,
        *,
        trials: int = 1,
        warmup: int | None = None,
    ) -> Self:
        """Measure, write a record, and return this object.

        loader: a DataLoader (made anew for each batch size, with its own workers and collate_fn), a Dataset, batches,
            or one example batch. batch_sizes: None is 8 to 128. iterations: steps a trial. devices: "cpu", "cuda",
            torch.device("cuda", 1), …; None is the CPU and the accelerator if there is one. One that is not here is
            skipped, with the reason among the results. warmup: least steps before measuring; None is detected.

        A batch size that runs out of memory is a row that says so; the others go on. Raises UsageError where nothing
        can be measured, and what the model itself raises.
        """
        for word, count in (("iterations", iterations), ("trials", trials)):
            if count < 1:
                raise UsageError(f"Diagnostics.run: {word}={count} is too small: 1 or more")
        procedure = Procedure(
            trials=trials,
            warmup=warmup,
            warmup_budget_s=1.0,
            iterations=iterations,
            isolation="inline",
            heap="default",
            count_flops=False,
        )
        parts = {"model": self._model, "example": loader, "loss": self._loss, "optimizer": self._optimizer}
        with Keeping(parts) as kept:
            self._swept = sweep(parts, self._title, batch_sizes, devices, procedure, self._folder, kept)
        return self

    if not TYPE_CHECKING:  # a type checker would take every name for one of it

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with the present name for one that documents give which people come from."""
            now = f"; it is {_CALLED_ELSEWHERE[name]} now" if name in _CALLED_ELSEWHERE else ""
            raise AttributeError(f"'Diagnostics' object has no attribute {name!r}{now}")

    def __repr__(self) -> str:
        """Return what was measured and where it lies: what a cell of a notebook shows that ends with it."""
        if self._swept is None:
            return f"Diagnostics({self._title}): nothing was measured yet"
        skipped = [f"skipped {device}: {why}" for device, why in self._swept.skipped.items()]
        return "\n".join([str(self.summary), *skipped, f"pictures and report: {self.folder}"])

    def _repr_html_(self) -> str | None:
        return as_html(self._document) if self._swept is not None else None

    def _document(self) -> Document:
        diagnosis = diagnosed_from_record(of_own_program(self.summary))
        return sweep_document(self._done(), diagnosis, [self._chart(Path(name)) for name in PICTURES])

    @property
    def summary(self) -> RunSummary:
        """The run as the command line would show it: `torchstone show latest`."""
        return self._done().summary

    @property
    def folder(self) -> Path:
        """Where pictures and the report of this run go unless told otherwise."""
        return self._folder / "diagnostics" / self.summary.run_id

    def results(self) -> list[Row]:
        """Return one row a device and batch size: how it ended, throughput, phases of the step, memory, verdict."""
        return sweep_rows(self._done())

    def frame(self) -> Any:
        """Return the results as a pandas DataFrame; as a list of rows where pandas is not installed."""
        return frame_of(self.results())

    def plot_throughput_vs_batch_size(self, path: str | Path | None = None) -> Path:
        """Draw samples/s over batch size; return the PNG file. Raises MissingError without vl-convert-python."""
        return self._draw("throughput_vs_batch_size.png", path)

    def plot_time_breakdown(self, path: str | Path | None = None) -> Path:
        """Draw data, transfer, forward, backward, optimizer and rest of a step; return the PNG file."""
        return self._draw("time_breakdown.png", path)

    def plot_memory_usage(self, path: str | Path | None = None) -> Path:
        """Draw the peaks of host and device memory over batch size; return the PNG file."""
        return self._draw("memory_usage.png", path)

    def report(self, path: str | Path | None = None) -> str:
        """Write performance_report.md, and return its text: what limits, what to change, what was measured, and doubts.

        It has the causes of the recommended batch size's time, the largest first, as far as what was recorded tells
        them, and shows the pictures that lie beside it. `torchstone diagnose` measures remedies as well, for models
        that it can import. Raises MissingError where it cannot be written.
        """
        return write_markdown(Path(path) if path is not None else self.folder / FILE, self._document())

    def _draw(self, name: str, path: str | Path | None) -> Path:
        return draw(self._picture(name), Path(path) if path is not None else self.folder / name)

    def _chart(self, file: Path) -> Chart:
        picture = self._picture(file.name)
        return Chart(file.stem, picture.title, picture, file.suffix)

    def _picture(self, name: str) -> Picture:
        summary = self.summary
        subtitle = f"{summary.name}, run {summary.run_id}, {summary.machine.host.processor}"
        return PICTURES[name](self.results(), subtitle)

    def _done(self) -> Swept:
        if self._swept is None:
            raise UsageError("Diagnostics: nothing was measured yet; call .run(loader) first")
        return self._swept


@called_elsewhere(dataloader="train_loader", num_iterations="iterations")
def run_kaggle_analysis(
    model: Any,
    train_loader: Any,
    batch_sizes: Sequence[int] | None = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    iterations: int = 50,
    devices: Sequence[Any] | None = None,
    output_dir: str | Path | None = None,
) -> Diagnostics:
    """Measure a model over batch sizes, leave record, three pictures and the report, and return the Diagnostics.

    As `Diagnostics` and its `run`. Raises MissingError, before anything is measured, where no picture could be drawn.
    """
    import_vl_convert()
    diagnostics = Diagnostics(model, loss_fn, optimizer, output_dir=output_dir)
    diagnostics.run(train_loader, batch_sizes, iterations, devices)
    diagnostics.plot_throughput_vs_batch_size()
    diagnostics.plot_time_breakdown()
    diagnostics.plot_memory_usage()
    diagnostics.report()
    return diagnostics


_GAUGES = (
    "device_utilization",
    "device_memory_used_bytes",
    "device_temperature_c",
    "device_power_w",
    "device_clock_hz",
    "device_throttled",
    "device_other_processes",
)
_IDLE = 0.05  # of the time


class GaugeReading(msgspec.Struct, frozen=True):
    """What one gauge said: mean, least and most of its readings, in the metric's unit."""

    mean: float
    least: float
    most: float
    readings: int


class DeviceUse(msgspec.Struct, frozen=True):
    """One accelerator over that time. `seen`: what its gauges say, in sentences."""

    device: DeviceInfo
    gauges: dict[str, GaugeReading]
    seen: tuple[str, ...]


class Utilization(msgspec.Struct, frozen=True):
    """All accelerators here. `missing`: of each kind that is not here, what was looked for and found instead."""

    seconds: float
    devices: tuple[DeviceUse, ...]
    missing: dict[str, str]

    def __str__(self) -> str:
        """Return lines to print."""
        if not self.devices:
            return "\n".join(("no accelerator found", *(f"  {kind}: {why}" for kind, why in self.missing.items())))
        return "\n".join(line for use in self.devices for line in _lines(use, self.seconds))

    __repr__ = __str__  # what a cell of a notebook shows that ends with it

    def _repr_html_(self) -> str | None:
        return as_html(lambda: Document("What the accelerators here do", tuple(_parts(self))))


def analyze_gpu_utilization(
    work: Callable[[], object] | None = None, *, seconds: float = 3.0, period_s: float = 0.1
) -> Utilization:
    """Read the gauges of every accelerator while `work()` runs, or for so many seconds from now.

    Without `work` it tells what else uses the device: nothing of this process runs meanwhile. Utilization is the share
    of time in which any kernel ran, not the share of the device's arithmetic. On a machine without an accelerator the
    answer says what was looked for. Raises UsageError for times that are not above 0, and what `work` raises.
    """
    if not seconds > 0.0 or not period_s > 0.0:
        raise UsageError(f"analyze_gpu_utilization: seconds={seconds}, period_s={period_s}; both must be above 0")
    found = inspect()
    devices = [device for device in found.devices if device.kind != "cpu"]
    watched = [_Watched(device) for device in devices]
    began_s = time.perf_counter()
    if not watched:
        if work is not None:
            work()
    elif work is None:
        _read_until(watched, lambda: time.perf_counter() - began_s >= seconds, period_s)
    else:
        done = threading.Event()
        reader = threading.Thread(target=_read_until, args=(watched, done.is_set, period_s), daemon=True)
        reader.start()
        try:
            work()
        finally:
            done.set()
            reader.join()
    spent_s = time.perf_counter() - began_s
    return Utilization(spent_s, tuple(one.use() for one in watched), dict(found.missing))


class _Watched:
    def __init__(self, device: DeviceInfo) -> None:
        self._device = device
        self._gauges: Sequence[Gauge] = [
            gauge
            for _, source in registry.usable("telemetry")
            for gauge in source.open(os.getpid(), device)
            if gauge.metric in _GAUGES
        ]
        self._values: dict[str, list[float]] = {}

    def read(self) -> None:
        for gauge in self._gauges:
            value = gauge.read()
            if value is not None:
                self._values.setdefault(gauge.metric, []).append(value)

    def use(self) -> DeviceUse:
        gauges = {
            metric: GaugeReading(fmean(values), min(values), max(values), len(values))
            for metric, values in self._values.items()
        }
        return DeviceUse(self._device, gauges, tuple(seen_of(self._device, gauges)))


def seen_of(device: DeviceInfo, gauges: dict[str, GaugeReading]) -> list[str]:
    """Return what the gauges of a device say. The limits are rules of thumb; phases and curves tell why."""
    busy, held = gauges.get("device_utilization"), gauges.get("device_memory_used_bytes")
    said = []
    if busy is None:
        said.append("utilization is not available")
    elif busy.mean < _IDLE:
        said.append("almost idle: nothing ran on this device")
    elif busy.mean < rules.UTILIZATION[0]:
        said.append(
            f"in use {100 * busy.mean:.0f} % of the time: it waits, usually for data or kernel launches; "
            "use Diagnostics to see which"
        )
    else:
        said.append(f"in use {100 * busy.mean:.0f} % of the time: compute-bound, or the kernels are small")
    if held is not None and device.memory_bytes and held.most > rules.FULL_MEMORY.least * device.memory_bytes:
        share = 100 * held.most / device.memory_bytes
        said.append(f"{share:.0f} % of its memory was in use: larger batches may not fit")
    if (slow := gauges.get("device_throttled")) is not None and slow.most > 0.0:
        said.append("throttled by temperature or power")
    if (others := gauges.get("device_other_processes")) is not None and others.most > 0.0:
        said.append(f"{others.most:.0f} other processes use it: timings are unreliable")
    return said


def _read_until(watched: Sequence[_Watched], ended: Callable[[], bool], period_s: float) -> None:
    while True:
        for one in watched:
            one.read()
        if ended():
            return
        time.sleep(period_s)


def _facts(device: DeviceInfo) -> list[str]:
    """Return what is known of a device beside its name."""
    memory = [f"{units.quantity(device.memory_bytes, 'bytes')} memory"] if device.memory_bytes else []
    told = (("compute capability", device.compute_capability), ("driver", device.driver), ("runtime", device.runtime))
    return memory + [f"{name} {value}" for name, value in told if value]


def _name(use: DeviceUse, seconds: float) -> str:
    return f"{use.device.kind}:{use.device.index} {use.device.name}, over {units.quantity(seconds, 's')}"


def _lines(use: DeviceUse, seconds: float) -> list[str]:
    lines = [_name(use, seconds)]
    lines += [f"  {', '.join(facts)}"] if (facts := _facts(use.device)) else []
    for metric, mean, low, high in _readings(use):
        lines.append(f"  {metric:<26}{mean:>12}  [{low}, {high}]")
    return lines + [f"  {sentence}" for sentence in use.seen]


def _readings(use: DeviceUse) -> Iterator[tuple[str, str, str, str]]:
    """Yield each gauge's name, mean, least and most with their unit."""
    for metric, found in use.gauges.items():
        unit = str(RAW[metric].unit)
        mean, low, high = (units.quantity(value, unit) for value in (found.mean, found.least, found.most))
        yield metric, mean, low, high


def _parts(found: Utilization) -> Iterator[Part]:
    """Yield what a notebook shows."""
    if not found.devices:
        yield Text("No accelerator found.", Role.HEADLINE)
        yield Fields(tuple(found.missing.items()))
    for use in found.devices:
        yield Text(f"{use.device.kind}:{use.device.index}: {'; '.join(use.seen)}.", Role.HEADLINE)
    for use in found.devices:
        titles, gauges = ("gauge", "mean", "least", "most"), tuple(zip(*_readings(use), strict=True))
        columns = (Column(title, cells, left=cells is gauges[0]) for title, cells in zip(titles, gauges, strict=False))
        yield Section(_name(use, found.seconds), (*paragraphs(_facts(use.device), Role.DETAIL), Table(tuple(columns))))
