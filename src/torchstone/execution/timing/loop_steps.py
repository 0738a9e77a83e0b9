"""What the steps of a user's own loop become in a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from torchstone.core.schema.phase import DATA, REST
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.execution.timing.segments import Steps


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
