"""A loop that is not ours, cut into labelled segments by one stopwatch, so that the parts of a step sum to the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from torchstone.extend import Stopwatch

REST = "rest"


class Steps(msgspec.Struct, frozen=True):
    """What the segments add up to: seconds a step, and seconds a step of each phase (0 where a step lacked it)."""

    steps_s: Sequence[float]
    phases_s: Mapping[str, Sequence[float]]


class Segments:
    """Cuts time at every border. A cut costs one lap of the stopwatch: no synchronisation is added."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch
        self._labels: list[str] = []
        self._ends: list[int] = []

    def start(self) -> None:
        """Begin the first segment."""
        self._watch.start()

    def cut(self, label: str) -> None:
        """End the present segment, which was spent on `label`, and begin the next."""
        self._watch.lap()
        self._labels.append(label)

    def end_step(self) -> None:
        """The segments since the last end were one step."""
        self._ends.append(len(self._labels))

    def finish(self) -> Steps:
        """Wait for the device and add up. Segments after the last end of a step are left out."""
        laps_s = self._watch.stop()
        phases = list(dict.fromkeys(self._labels))
        steps_s: list[float] = []
        phases_s: dict[str, list[float]] = {phase: [] for phase in phases}
        begin = 0
        for end in self._ends:
            step = dict.fromkeys(phases, 0.0)
            for label, lap_s in zip(self._labels[begin:end], laps_s[begin:end], strict=True):
                step[label] += lap_s
            steps_s.append(sum(laps_s[begin:end]))
            for phase, spent_s in step.items():
                phases_s[phase].append(spent_s)
            begin = end
        return Steps(steps_s, phases_s)
