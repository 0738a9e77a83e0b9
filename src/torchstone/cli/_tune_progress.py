"""What a tune says while it works: a line for each thing learned, under the stage it belongs to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from torchstone.cli._progress import waiting_words
from torchstone.core import units
from torchstone.core.schema.axis import LOADER_AXES
from torchstone.core.schema.message import Entered
from torchstone.core.schema.search import PATIENCE_S, Part
from torchstone.core.schema.trial import Purpose, Status
from torchstone.core.units import plain
from torchstone.execution.timing.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchstone.core.schema.answer import TuneSpec
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.run import Head, Slot
    from torchstone.core.schema.search import Probe, ProbeResult
    from torchstone.core.schema.trial import Trial

_STAGES = {Part.LOADER: "loader-only throughput", Part.DEVICE: "device-only throughput", Part.WHOLE: "whole step"}


def _may_take_long(spec: TuneSpec) -> bool:
    return spec.searcher == "adaptive" and spec.most_cost_s is None and spec.most_probes is None


class TuneProgress:
    """A TuneWatcher (workflows/tune/tune.py) that writes lines to stderr."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._began_s = system_clock()
        self._stage: str | None = None
        self._spec: TuneSpec | None = None
        self._best: float | None = None
        self._fought = 0
        self.run_id: str | None = None

    def begins(self, head: Head) -> None:
        """Say which run it is."""
        self.run_id = head.run_id
        self._print(f"run {head.run_id}")

    def searching(self, spec: TuneSpec, points: int) -> None:
        """Say what is looked for, among how many settings."""
        self._spec = spec
        axes = ", ".join(f"{axis} ({len(values)})" for axis, values in spec.axes.items())
        workload = spec.base.workload
        self._print(f"tuning {workload.task} {workload.model} on {spec.base.placement} for {spec.objective}:")
        most = f", about {PATIENCE_S / 60:g} min of probes at most (--within T for all of it)" * _may_take_long(spec)
        self._print(f"{points} settings of {axes}; searcher {spec.searcher}{most}")
        if "num_workers" not in spec.axes and workload.data in ("synthetic", "example"):
            own = workload.data == "example" and spec.base.configuration.get("feed") == "loader"
            none = "its batches are used as they come" if own else f"data {workload.data} has no loader to tune"
            how = "return the Dataset" if own else "name --data"
            self._print(f"{none}: {how} to tune workers, too")

    def probing(self, probe: Probe, number: int) -> None:
        """Name the stage when it changes."""
        self.stage(_STAGES[probe.part])

    def learned(self, reading: ProbeResult) -> None:
        """Say what a probe told."""
        shown = {axis: value for axis, value in reading.probe.point.items() if self._matters(axis, reading)}
        point = ", ".join(f"{axis} {value}" for axis, value in shown.items())
        if reading.status != Status.OK:
            self._print(f"  {point}: {reading.status}")
            return
        rate = units.quantity(reading.value, "items/s") if self._is_rate(reading) else self._objective(reading.value)
        waits = f", waits {units.quantity(reading.wait_share, 'ratio')} for data" if self._waits(reading) else ""
        beyond = "" if reading.allowed else ", beyond a limit"
        why = f"   ({reading.probe.why})" if reading.probe.why else ""
        self._print(f"  {point}: {rate}, {units.quantity(reading.peak_bytes, 'bytes')}{waits}{beyond}{why}")

    def stage(self, text: str) -> None:
        """Print a heading where the stage is another than before."""
        if text != self._stage:
            self._stage = text
            self._print(f"{text}:")

    def starts(self, slot: Slot, order: int) -> None:
        """Nothing is planned beforehand."""

    def heard(self, event: Event) -> None:
        """Say which stage of a trial begins, where everything is to be told."""
        if self._verbose and isinstance(event, Entered):
            self._print(f"    {system_clock() - self._began_s:8.3f} s  {event.stage}")

    def finished(self, trial: Trial) -> None:
        """Say that a trial of the final round is done; probes are told by `learned`."""
        if trial.purpose == Purpose.REPLICATE:
            self._fought += 1
            ended = "" if trial.outcome.status == Status.OK else f": {trial.outcome.status}"
            self._print(f"  trial {self._fought} ({units.quantity(trial.duration_s, 's')}){ended}")

    def waits(self, programs: Sequence[tuple[str, float]]) -> None:
        """Say what the next trial waits for."""
        self._print(waiting_words(programs))

    def close(self) -> None:
        """Nothing is open."""

    def _matters(self, axis: str, reading: ProbeResult) -> bool:
        loader = axis in LOADER_AXES
        if axis == "batch_size" or reading.probe.part == Part.WHOLE:
            return True
        return loader == (reading.probe.part == Part.LOADER)

    def _is_rate(self, reading: ProbeResult) -> bool:
        return reading.probe.part != Part.WHOLE or (
            self._spec is not None and self._spec.objective in ("throughput", "efficiency")
        )

    def _objective(self, value: float | None) -> str:
        unit = "J/item" if self._spec is not None and self._spec.objective == "energy" else "s"
        return units.quantity(1.0 / value if value else None, "s" if unit == "s" else "J")

    def _waits(self, reading: ProbeResult) -> bool:
        return reading.probe.part == Part.WHOLE and reading.wait_share is not None and reading.wait_share > 0.01

    def _print(self, text: Any) -> None:
        if not self._quiet:
            print(plain(text), file=sys.stderr, flush=True)
