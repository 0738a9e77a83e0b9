"""A window around people's own loops: steps, waits for data and named phases, from one stopwatch.

with torchstone.window("train") as w:
for batch in w.batches(loader):
with w.phase("forward"):
loss = model(batch)
...
print(w.summary)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self, TypeVar

from torchstone.analysis.summary import RunSummary
from torchstone.api.devices import open_device
from torchstone.api.keeping.process import CurrentDevices
from torchstone.api.notebook import as_html, document_of
from torchstone.api.recording import default_folder, keep, trial_of
from torchstone.api.sizes import items_of
from torchstone.core import units
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Case, Task, Workload
from torchstone.core.schema.phase import DATA, REST
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot
from torchstone.core.schema.trial import Measurement, Stage, Trial
from torchstone.core.stats.steady import truncation
from torchstone.execution.controller.telemetry_sampler import TelemetrySampler
from torchstone.execution.timing.clock import resolution_s, system_clock
from torchstone.execution.timing.segments import Segments
from torchstone.plugins import registry

T = TypeVar("T")


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
        self._items: list[int] = []
        self._in_phase: str | None = None
        self._looped = False
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
        return "\n".join((str(self.summary), "where a step's time goes (means)", *parts))

    def __repr__(self) -> str:
        """Return the same: it is what a cell of a notebook shows that ends with a window."""
        return str(self)

    def _repr_html_(self) -> str | None:
        run = self.summary
        return as_html(lambda: document_of(run)) if run is not None else None

    def __enter__(self) -> Self:
        """Open the device."""
        self._current = CurrentDevices()
        opened = open_device(self._device_word)
        self._device, self._placement = opened.device, opened.placement
        self._segments = Segments(self._device.stopwatch())
        return self

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield the loader's batches; each turn of the loop is one step, waiting for its batch included."""
        if self._looped:
            raise UsageError("window: batches() was used already; open one window per loop")
        self._looped = True
        source = iter(loader)
        self._device.synchronize()
        self._began_s = system_clock()
        self._recorder = TelemetrySampler(os.getpid(), None, self._began_s, system_clock)
        self._recorder.read()
        self._segments.start()
        for batch in source:
            self._segments.cut(DATA)
            yield batch
            self._segments.cut(REST)
            self._segments.end_step()
            self._items.append(items_of(batch))

    def phase(self, name: str) -> Phase:
        """Return a block whose time is counted as that phase of the step. Phases do not nest: they sum to the step."""
        return Phase(self, name)

    def enter_phase(self, name: str) -> None:
        """Begin a phase: what went before it was the rest of the step."""
        if self._in_phase is not None:
            raise UsageError(
                f"window: phase {name!r} inside phase {self._in_phase!r}; phases do not nest, close one first"
            )
        self._in_phase = name
        self._segments.cut(REST)

    def leave_phase(self) -> None:
        """End the phase."""
        if self._in_phase is not None:
            self._segments.cut(self._in_phase)
        self._in_phase = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the record, unless the block raised or no step was done."""
        try:
            self._conclude(kind)
        finally:
            self._current.put_back()

    def _conclude(self, kind: type[BaseException] | None) -> None:
        if kind is not None:
            return
        if not self._items:
            raise UsageError("window: no step was measured; loop over w.batches(loader) inside the block")
        case = Case(self._workload, {"batch_size": max(set(self._items), key=self._items.count)}, self._placement)
        procedure = Procedure(
            trials=1, warmup=self._warmup, isolation="inline", heap="default", settings="torch", telemetry_period_s=0.0
        )
        plan = Plan((case,), (Slot(0, 0),))
        self.summary = keep(plan, procedure, self._name, self._folder, lambda _slot, _order: self._trial(case))

    def _trial(self, case: Case) -> Trial:
        steps = self._segments.finish()
        ended_s = system_clock()
        self._recorder.read()
        first = min(len(steps.steps_s) - 1, self._first_steady(list(steps.steps_s)))
        measurements = [
            Measurement("step_time_s", Stage.WARMUP, tuple(steps.steps_s[:first])),
            _steady("step_time_s", steps.steps_s[first:], self._name),
            _steady("window_time_s", [sum(steps.steps_s[first:])], self._name),
            _steady(
                "window_span_s",
                [ended_s - self._began_s - sum(steps.steps_s[first:]), ended_s - self._began_s],
                self._name,
            ),
            _steady("items", self._items[first:], self._name),
            _steady("data_wait_s", steps.phases_s.get(DATA, [])[first:], self._name),
            Measurement("first_step_time_s", Stage.SETUP, (steps.steps_s[0],)),
        ]
        for phase, spent_s in sorted(steps.phases_s.items(), key=lambda phase: phase[0] == REST):
            self._mean_phases_s = {**self._mean_phases_s, phase: fmean(spent_s[first:])}
            measurements.append(_steady("phase_time_s", spent_s[first:], self._name, phase))
        for metric, value in self._device.memory().items():
            measurements.append(_steady(metric, [value], self._name))
        facts = {
            "task": str(case.workload.task),
            "device": case.placement.device,
            "logical_cores": os.cpu_count(),
            "warmup_steps": first,
            "warmup_settled": True,
            "clock_resolution_s": resolution_s(system_clock),
        }
        parts: Mapping[str, Any] = {
            "facts": facts,
            "measurements": tuple(measurements),
            "series": self._recorder.series(),
        }
        return trial_of(case, 0, 0, self._began_s, ended_s, parts)

    def _first_steady(self, steps_s: list[float]) -> int:
        """The process's first step is never steady; then as many as were asked for, or as MSER-5 cuts off."""
        return self._warmup if self._warmup is not None else max(1, truncation(steps_s))


class Phase:
    """One named part of a step; costs two laps."""

    __slots__ = ("_name", "_window")

    def __init__(self, window: Window, name: str) -> None:
        self._window = window
        self._name = name

    def __enter__(self) -> None:
        self._window.enter_phase(self._name)

    def __exit__(self, *_: object) -> None:
        self._window.leave_phase()


def _steady(metric: str, values: Iterable[float], window: str, phase: str | None = None) -> Measurement:
    return Measurement(metric, Stage.STEADY, tuple(float(v) for v in values), window, phase)
