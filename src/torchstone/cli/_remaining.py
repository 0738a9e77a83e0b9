"""How long a sweep will still take.

A Case takes as long again as it took before. One not yet seen, as long as its size says: trials of a fixed number of
steps grow with the batch, trials that fill their budget do not, and a straight line through what was seen tells which
it is. A new round begins with a new template, which takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, linear_regression

from torchstone.core.schema.case import Case
from torchstone.core.schema.run import Head, Slot
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution.timing.clock import Clock

_Kind = tuple[str, str]  # task and model
_SHAPES = ("batch_size", "sequence_length", "image_size", "image_size")  # an image has its side twice
_LONGEST_OPENING_S = 15.0  # what took longer was a wait, for a device or for the user's own code


class Remaining:
    """Told what starts and finishes, it expects the rest. `opening_s`: what the first template took."""

    def __init__(self, head: Head, opening_s: float, clock: Clock) -> None:
        self._slots = head.plan.slots
        self._kinds = [(str(case.workload.task), case.workload.model) for case in head.plan.cases]
        self._sizes = [_size(case) for case in head.plan.cases]
        self._clock = clock
        self._opening_s = 0.0 if head.procedure.isolation == "spawn" else min(opening_s, _LONGEST_OPENING_S)
        self._openings_s: list[float] = []
        self._between_s: list[float] = []  # what a trial costs beside its own time
        self._seen_s: dict[int, list[float]] = {}
        self._well: set[int] = set()
        self._taken = 0
        self._began_s = clock()
        self._expected_s: float | None = None
        self._rest_s = 0.0
        self._usual_s = 0.0

    def starts(self) -> None:
        """Note that the next trial of the plan starts."""
        self._began_s = self._clock()
        if self._seen_s:
            lines = _Lines([(self._kinds[c], self._sizes[c], fmean(self._seen_s[c])) for c in self._well])
            self._usual_s = fmean(fmean(times) for times in self._seen_s.values())
            left = self._slots[self._taken :]
            costs = {c: self._cost_s(c, lines) for c in {slot.case for slot in left}}
            self._rest_s = sum(costs[slot.case] for slot in left[1:]) + self._opening_s * _changes(left)
            now_s = self._opening_s if self._opens() else 0.0
            self._expected_s = now_s + costs[left[0].case] if left else None

    def finished(self, trial: Trial) -> None:
        """Note that it has ended."""
        if self._taken >= len(self._slots):
            return
        case = self._slots[self._taken].case
        beside_s = max(0.0, self._clock() - self._began_s - trial.duration_s)
        if self._opens():
            self._openings_s.append(beside_s)
            self._opening_s = fmean(self._openings_s)
        else:
            self._between_s.append(beside_s)
        self._seen_s.setdefault(case, []).append(trial.duration_s)
        if trial.outcome.status == Status.OK:
            self._well.add(case)
        self._taken += 1

    def left_s(self) -> float | None:
        """Return the seconds that are left; None before anything was seen."""
        if self._expected_s is None:
            return None
        return max(0.0, self._expected_s - (self._clock() - self._began_s)) + self._rest_s

    def _opens(self) -> bool:
        """Say whether the trial at hand is the first of a further round."""
        here = self._taken
        return 0 < here < len(self._slots) and self._slots[here].number != self._slots[here - 1].number

    def _cost_s(self, case: int, lines: _Lines) -> float:
        between_s = fmean(self._between_s) if self._between_s else 0.0
        if case in self._seen_s:
            return between_s + fmean(self._seen_s[case])
        found = lines.at(self._kinds[case], self._sizes[case])
        return between_s + (self._usual_s if found is None else found)


class _Lines:
    """Seconds over size, of what was measured: a line for each model and task, level where one size was seen."""

    def __init__(self, seen: Sequence[tuple[_Kind, float, float]]) -> None:
        points: dict[_Kind, list[tuple[float, float]]] = {}
        for kind, size, seconds in seen:
            points.setdefault(kind, []).append((size, seconds))
        self._lines = {kind: _line(of_kind) for kind, of_kind in points.items()}

    def at(self, kind: _Kind, size: float) -> float | None:
        """Return the seconds of a Case; None where nothing of its kind was seen."""
        if kind not in self._lines:
            return None
        start_s, slope, least_s = self._lines[kind]
        return max(least_s, start_s + slope * size)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return start, slope and least value of the least-squares line; level where it would fall."""
    sizes, times = zip(*points, strict=True)
    if len(set(sizes)) > 1:
        slope, start_s = linear_regression(sizes, times)
        if slope > 0.0:
            return start_s, slope, min(times) / 2.0
    return fmean(times), 0.0, 0.0


def _size(case: Case) -> float:
    return math.prod(float(case.configuration.get(axis) or 1) for axis in _SHAPES)


def _changes(slots: Sequence[Slot]) -> int:
    return sum(one.number != other.number for one, other in pairwise(slots))
