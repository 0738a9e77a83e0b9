"""A step cut into labelled segments by one stopwatch, so that the parts of a step sum to the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from torchstone.core.schema.metric import DATA, REST
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.execution.timing.clock import Clock
from torchstone.plugins.machine_protocols import Stopwatch


class Stretch(msgspec.Struct, frozen=True):
    """Steps without a pause between them: begin and end by the clock, and how many steps were done by its end."""

    begin_s: float
    end_s: float
    done: int


def measured_steps(
    window: str, steps: Steps, first: int, items: Sequence[int | None], spans_s: Iterable[tuple[float, float]]
) -> list[Measurement]:
    """Return the raw values of steps, of which the `first` ones are the warm-up. `items` of each; None: not known."""
    times_s = steps.steps_s[first:]
    found = [
        Measurement("step_time_s", Stage.WARMUP, tuple(steps.steps_s[:first])),
        steady(window, "step_time_s", times_s),
        steady(window, "window_time_s", [sum(times_s)]),
        *(steady(window, "window_span_s", span_s) for span_s in spans_s),
        Measurement("first_step_time_s", Stage.SETUP, (steps.steps_s[0],)),
    ]
    known = [number for number in items[first:] if number is not None]
    if len(known) == len(times_s):
        found.append(steady(window, "items", known))
    if DATA in steps.phases_s:  # else nobody saw the waits: step() marks the ends of steps alone
        found.append(steady(window, "data_wait_s", steps.phases_s[DATA][first:]))
    found += [steady(window, "phase_time_s", spent_s[first:], phase) for phase, spent_s in in_order(steps.phases_s)]
    return found


def steady_spans_s(
    stretches: Iterable[Stretch], began_s: float, steps_s: Sequence[float], first: int
) -> Iterator[tuple[float, float]]:
    """Yield begin and end of each stretch in seconds since `began_s`, the `first` steps left out.

    Gauges are read over them.
    """
    before = 0
    for stretch in stretches:
        if stretch.done > first:
            begin_s = stretch.begin_s
            if before < first:
                begin_s = max(begin_s, stretch.end_s - sum(steps_s[first : stretch.done]))
            yield begin_s - began_s, stretch.end_s - began_s
        before = stretch.done


def in_order(phases_s: Mapping[str, Sequence[float]]) -> list[tuple[str, Sequence[float]]]:
    """Return the phases as they came, the rest of the step last."""
    return sorted(phases_s.items(), key=lambda phase: phase[0] == REST)


def steady(window: str, metric: str, values: Iterable[float], phase: str | None = None) -> Measurement:
    """Return values of steady steps."""
    return Measurement(metric, Stage.STEADY, tuple(float(value) for value in values), window, phase)


class Steps(msgspec.Struct, frozen=True):
    """What the segments add up to: seconds a step, and seconds a step of each phase (0 where a step lacked it).

    `host_s`: the same phases by the host's clock, where it was read beside; None elsewhere.
    """

    steps_s: Sequence[float]
    phases_s: Mapping[str, Sequence[float]]
    host_s: Mapping[str, Sequence[float]] | None = None


class Segments:
    """Cuts time at every border. A cut costs one lap of the stopwatch: no synchronisation is added.

    With a `clock` it is read at every border too: on a device that runs behind the host, the stopwatch tells what the
    device did and the clock what the host did meanwhile, its waiting for batches and for the device among it.
    """

    def __init__(self, watch: Stopwatch, clock: Clock | None = None) -> None:
        self._watch = watch
        self._clock = clock
        self._labels: list[str | None] = []
        self._ends: list[int] = []
        self._stamps_s: list[float] = []

    def start(self) -> None:
        """Begin the first segment."""
        self._watch.start()
        if self._clock is not None:
            self._stamps_s.append(self._clock())

    def cut(self, label: str | None) -> None:
        """End the present segment, which was spent on `label` (None: is no part of any step), and begin the next."""
        self._watch.lap()
        self._labels.append(label)
        if self._clock is not None:
            self._stamps_s.append(self._clock())

    def skip(self) -> None:
        """Begin a step: what went since the last one is no part of any."""
        self.cut(None)
        last = self._ends[-1] if self._ends else 0
        self._labels[last:] = [None] * (len(self._labels) - last)

    def end_step(self) -> None:
        """The segments since the last end were one step."""
        self._ends.append(len(self._labels))

    def finish(self, lead_in: int = 0) -> Steps:
        """Wait for the device and add up, the first `lead_in` steps and what came after the last left out."""
        phases_s = self._added_up(self._watch.stop(), lead_in)
        host_s = None
        if self._clock is not None:
            host_s = self._added_up([after - before for before, after in pairwise(self._stamps_s)], lead_in)
        return Steps([sum(parts_s) for parts_s in zip(*phases_s.values(), strict=True)], phases_s, host_s)

    def _added_up(self, laps_s: Sequence[float], lead_in: int) -> Mapping[str, Sequence[float]]:
        borders = [0, *self._ends][lead_in:]
        phases_s: dict[str, list[float]] = {phase: [] for phase in dict.fromkeys(self._labels) if phase is not None}
        for begin, end in pairwise(borders):
            step = dict.fromkeys(phases_s, 0.0)
            segments: Iterable[tuple[str | None, float]] = zip(self._labels[begin:end], laps_s[begin:end], strict=True)
            for label, lap_s in segments:
                if label is not None:
                    step[label] += lap_s
            for phase, spent_s in step.items():
                phases_s[phase].append(spent_s)
        return phases_s
