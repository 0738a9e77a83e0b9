"""A window around people's own loops: steps, waits for data and named phases, from one stopwatch.

    with torchstone.window("train") as w:
        for epoch in range(epochs):
            for batch in w.batches(loader):
                with w.phase("forward"):
                    loss = model(batch)
                ...
            with w.pause():
                evaluate(model)
    print(w)

Where the loop is a library's, its callback says `w.step(items=…)` at the end of each step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Self, TypeVar

from torchstone.analysis.summary import RunSummary
from torchstone.api.keeping import CurrentDevices
from torchstone.api.recording import as_html, default_folder, device_in_words, document_with_pictures, keep, trial_of
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.messages import MESSAGES
from torchstone.core.schema.case import Case, Task, Workload
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.metric import DATA, REST
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.steady import truncation
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.execution.timing.segments import Segments, Stretch, in_order, measured_steps, steady, steady_spans_s
from torchstone.plugins import registry


def batch_items(batch: Any) -> int | None:
    """Return the length along dimension 0 of the tensors in a batch (tensor, mapping, sequence, object of them).

    None where they do not agree: a batch of graphs has its nodes there, its edges and its graphs, and nobody but its
    user knows which of them are counted. A list of texts counts as its length; anything else without a tensor is None.
    """
    sizes = {int(tensor.shape[0]) for tensor in _tensors(batch) if len(tensor.shape)}
    if sizes:
        return sizes.pop() if len(sizes) == 1 else None
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        texts = all(isinstance(text, str | bytes) for text in batch)
        return len(batch) or None if texts else None
    return None


def _tensors(batch: Any, *, inside: bool = False) -> Iterator[Any]:
    """Yield the tensors; of the objects only the outermost is looked into: what it knows may be a whole data set."""
    if hasattr(batch, "shape"):
        yield batch
        return
    parts: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        parts = batch
    elif not inside:
        parts = getattr(batch, "__dict__", {}).values()
    for part in parts:
        yield from _tensors(part, inside=True)


T = TypeVar("T")

UNKNOWN = "items_unknown"


class Window:
    """Measures a loop of the user's own. `summary` is there after the block; the record is in the output folder.

    What the loop trains, draws and sets is the user's and stays. The window itself changes nothing but torch's current
    device, where another is named, and puts that back at the end of the block.
    """

    def __init__(
        self,
        name: str,
        *,
        task: str = "train",
        device: str = "auto",
        warmup: int | None = None,
        item: str = "sample",
        output_dir: str | Path | None = None,
    ) -> None:
        """Open nothing yet. `warmup`: steps to leave out (None: detected). `item`: what one row of a batch is."""
        if task not in registry.names("engines"):
            raise UsageError(f"window: task {task!r}; use one of {', '.join(registry.names('engines'))}")
        self.summary: RunSummary | None = None
        self._name = name
        self._workload = Workload(Task(task), f"loop:{name}", "own", item)
        self._device_word = device
        self._warmup = warmup
        self._folder = Path(output_dir) if output_dir is not None else default_folder()
        self._items: list[int | None] = []  # of each step; None: not known
        self._told: int | None = None  # the items of the present turn of `batches`, where step() said them
        self._in_phase: str | None = None
        self._paused = False
        self._loop: object | None = None  # the loop of `batches` whose turns are counted
        self._since_s: float | None = None  # when the present stretch began; None between two stretches
        self._stretches: list[Stretch] = []
        self._mean_phases_s: Mapping[str, float] = {}

    @property
    def phases_s(self) -> Mapping[str, float]:
        """Mean seconds a steady step spent in each phase, "data" and "rest" among them; they sum to the mean step."""
        return self._mean_phases_s

    def __str__(self) -> str:
        """Return the summary with the phases, as lines to print."""
        if self.summary is None:
            return f"window {self._name!r}: not measured"
        step_s = sum(self._mean_phases_s.values()) or 1.0
        parts = [
            f"  {name:<16}{units.quantity(spent_s, 's'):>14}  {100.0 * spent_s / step_s:.1f} % of a step"
            for name, spent_s in self._mean_phases_s.items()
        ]
        unknown = [f"items unknown: {MESSAGES[UNKNOWN].advice}"] if None in self._items else []
        return "\n".join((str(self.summary), *unknown, "where a step's time goes (means)", *parts))

    def __repr__(self) -> str:
        """Return the same: it is what a cell of a notebook shows that ends with a window."""
        return str(self)

    def _repr_html_(self) -> str | None:
        run = self.summary
        return as_html(lambda: document_with_pictures(run)) if run is not None else None

    def __enter__(self) -> Self:
        """Open the device, and begin a first step for loops that mark their ends with `step`."""
        self._current = CurrentDevices()
        opened = device_in_words(self._device_word)
        self._device, self._placement = opened.device, opened.placement
        self._segments = Segments(self._device.stopwatch())
        self._device.synchronize()
        self._began_s = system_clock()
        self._recorder = TelemetrySampler(os.getpid(), None, self._began_s, system_clock)
        self._segments.start()
        self._begin_stretch()
        return self

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the loader's batches; each turn of the loop is one step, waiting for its batch included.

        Once for each epoch; what lies between two loops is in no step. A loop within a pause is not measured.
        """
        if self._paused:
            yield from loader
            return
        loop = self._loop = object()
        self._begin_stretch()
        try:
            for batch in loader:
                self._cut(DATA)
                yield batch
                if not self._counts(loop):  # another loop was measured within this turn: it is no step
                    self._loop = loop
                    self._begin_stretch()
                    continue
                told = self._end_step()
                self._items.append(told if told is not None else batch_items(batch))
        finally:
            if self._counts(loop):
                self._loop = None
                self._end_stretch()

    def _counts(self, loop: object) -> bool:
        return self._loop is loop and not self._paused

    def step(self, items: int | None = None) -> None:
        """A step with so many items ends here (a callback's `on_step_end`); within `batches`, say how many it has.

        `items`: samples, graphs, tokens, … of this step; None: not known.
        """
        if self._paused:
            return
        if self._loop is not None:
            self._told = items
        elif self._since_s is None:  # the end of a loop of `batches`: when this step began is not known
            self._begin_stretch()
        else:
            self._end_step()
            self._items.append(items)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave what this block does (evaluation, a checkpoint) out of the steps. Also a decorator of a function."""
        if self._paused:
            yield
            return
        measured = self._since_s is not None
        if measured:
            self._cut(self._in_phase or REST)
            self._end_stretch()
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            if measured:
                self._device.synchronize()
                self._recorder.read()
                self._segments.cut(None)
                self._since_s = system_clock()

    def _cut(self, label: str) -> None:
        if not self._paused:
            self._segments.cut(label)

    def _end_step(self) -> int | None:
        self._segments.cut(REST)
        self._segments.end_step()
        told, self._told = self._told, None
        return told

    def _begin_stretch(self) -> None:
        """Begin a step anew: what went since the last one is in none."""
        self._end_stretch()
        self._device.synchronize()
        self._recorder.read()
        self._segments.skip()
        self._told = None
        self._since_s = system_clock()

    def _end_stretch(self) -> None:
        if self._since_s is not None:
            self._device.synchronize()
            self._stretches.append(Stretch(self._since_s, system_clock(), len(self._items)))
            self._recorder.read()
        self._since_s = None

    def phase(self, name: str) -> PhaseBlock:
        """Return a block whose time is counted as that phase of the step. Phases do not nest: they sum to the step."""
        return PhaseBlock(self, name)

    def enter_phase(self, name: str) -> None:
        """Begin a phase: what went before it was the rest of the step. In a pause nothing is counted."""
        if self._paused:
            return
        if self._in_phase is not None:
            inside = f"window: phase {name!r} inside phase {self._in_phase!r}"
            raise UsageError(f"{inside}; phases do not nest, close one first")
        self._in_phase = name
        self._cut(REST)

    def leave_phase(self) -> None:
        """End the phase."""
        if self._paused:
            return
        if self._in_phase is not None:
            self._cut(self._in_phase)
        self._in_phase = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the record, unless the block raised or no step was done."""
        try:
            if kind is None:
                self._conclude()
        finally:
            self._current.put_back()

    def _conclude(self) -> None:
        self._end_stretch()
        if not self._items:
            raise UsageError(
                "window: no step was measured; loop over w.batches(loader) inside the block, with one loader a loop "
                "(w.batches(zip(a, b))), or call w.step() at the end of each step"
            )
        known = [items for items in self._items if items is not None]
        unknown = len(known) < len(self._items)
        size = {} if unknown else {"batch_size": max(set(known), key=known.count)}
        case = Case(self._workload, size, self._placement)
        procedure = Procedure(
            trials=1, warmup=self._warmup, isolation="inline", heap="default", settings="torch", telemetry_period_s=0.0
        )
        notes = [Finding(UNKNOWN, Severity.INFO, case.case_id)] if unknown else []
        plan = Plan((case,), (Slot(0, 0),))
        self.summary = keep(plan, procedure, self._name, self._folder, lambda _slot, _order: self._trial(case), notes)

    def _trial(self, case: Case) -> Trial:
        steps = self._segments.finish()
        ended_s = system_clock()
        first = min(len(steps.steps_s) - 1, self._first_steady(list(steps.steps_s)))
        self._mean_phases_s = {name: fmean(spent_s[first:]) for name, spent_s in in_order(steps.phases_s)}
        spans_s = steady_spans_s(self._stretches, self._began_s, steps.steps_s, first)
        measurements = measured_steps(self._name, steps, first, self._items, spans_s)
        measurements += [steady(self._name, metric, [held]) for metric, held in self._device.memory().items()]
        facts = Facts(
            str(case.workload.task),
            case.placement.device,
            logical_cores=os.cpu_count(),
            warmup_steps=first,
            warmup_settled=True,
            clock_resolution_s=resolution_s(system_clock),
        )
        parts = {"facts": facts, "measurements": tuple(measurements), "series": self._recorder.series()}
        return trial_of(case, 0, 0, self._began_s, ended_s, parts)

    def _first_steady(self, steps_s: list[float]) -> int:
        """The process's first step is never steady; then as many as were asked for, or as MSER-5 cuts off."""
        return self._warmup if self._warmup is not None else max(1, truncation(steps_s))


class PhaseBlock:
    """One named part of a step; costs two laps."""

    __slots__ = ("_name", "_window")

    def __init__(self, window: Window, name: str) -> None:
        self._window = window
        self._name = name

    def __enter__(self) -> None:
        self._window.enter_phase(self._name)

    def __exit__(self, *_: object) -> None:
        self._window.leave_phase()
