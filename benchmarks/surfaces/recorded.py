"""Surfaces recorded from real trials (record.py), replayed with noise that was measured on such trials.

The two halves of a recording (pin_memory off and on) are the same programs taken twice, and on a shared machine one
reading differs from the other by 10 to 20 %. The best of 336 such readings is the luckiest, not the best (the winner's
curse), so the truth of a setting is not its raw mean but the best linear prediction from all readings: a Gaussian
process over batch, workers and precision with a term of each setting's own, its noise that between the halves, its
other figures those of the greatest likelihood (Rasmussen & Williams 2006, eq. 2.25 and 2.30). It predicts a half that
it has not seen better than the other half does: tests/statistics/test_search.py.

The parts (device alone, loader alone) were read once each, on the same machine in the same hours: they are smoothed by
the same rule, with the noise of the whole steps of their batch size.

A trial replayed reads the truth with the noise of small nets (noise.py: trials interleaved on a shared machine), as on
the modelled surfaces. `as_recorded` takes the recording's own residuals at the same batch size instead, half their
variance growing as the window shrinks: the hour of the recording, in which neighbours of the virtual machine made it
twice as slow for seconds at a time. Durations are the recorded ones, the window scaled by the effort.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from surfaces.noise import SMALL_NET
from surfaces.surface import Spot, Surface, out_of_memory, spot_of

from torchstone.core.schema.search import Part, Point, Probe, ProbeResult
from torchstone.core.schema.trial import Status

FOLDER = Path(__file__).parent / "recorded"
CAPACITY_BYTES = {"cnn": 336 * 1024**2}  # a cliff where a container of that size would have one: fp32 ends at 4,096
PREFETCH = 2  # batches that each process of the loader keeps ready
END_S = 0.5  # of a trial that ends there
BATCHES, WORKERS, PRECISIONS = tuple(2**n for n in range(14)), (0, 2, 4, 8, 12, 16), ("fp32", "bf16")  # as AXES
Setting = tuple[int, int, str]
SETTINGS: tuple[Setting, ...] = tuple(itertools.product(BATCHES, WORKERS, PRECISIONS))


class Row(NamedTuple):
    """One recorded trial, as COLUMNS of record.py."""

    kind: str
    batch: int
    workers: int
    precision: str
    pin: bool
    status: str
    items_per_s: float
    duration_s: float
    window_s: float
    steps: int
    wait_share: float | None
    peak_rss_bytes: int | None


class Recorded(Surface):
    """A surface from a recording. Raises ValueError if a trial of it did not end well."""

    def __init__(self, name: str, rows: list[Row], *, as_recorded: bool = False) -> None:
        if any(row.status != "ok" for row in rows):
            raise ValueError(f"recording {name}: a trial is not ok")
        self.name, self._as_recorded = name, as_recorded
        self.capacity_bytes = CAPACITY_BYTES.get(name)
        self._wholes = {Spot(r.batch, r.workers, r.precision, r.pin): r for r in rows if r.kind == "whole"}
        self._devices = {(r.batch, r.precision): r for r in rows if r.kind == "device"}
        self._loaders = {(r.batch, r.workers): r for r in rows if r.kind == "loader"}
        self.readings = np.array(
            [[self._log_reading(Spot(*setting, pin)) for pin in (False, True)] for setting in SETTINGS]
        )
        noise = noise_of(self.readings)
        truth = smooth(SETTINGS, self.readings, noise)
        self._truth = dict(zip(SETTINGS, np.exp(truth).tolist(), strict=True))
        by_batch = dict(zip((setting[0] for setting in SETTINGS), noise.tolist(), strict=True))
        self._device_rates = _rates([(b, 0, p) for b, p in self._devices], list(self._devices.values()), by_batch)
        self._loader_rates = _rates([(b, w, "fp32") for b, w in self._loaders], list(self._loaders.values()), by_batch)
        rest = self.readings - truth[:, None]
        self._residuals: dict[int, list[float]] = {}
        for batch in BATCHES:
            own = np.array([setting[0] == batch for setting in SETTINGS])
            here = rest[own].ravel() - rest[own].mean()
            self._residuals[batch] = (here * noise[own][0] / here.std()).tolist()  # what smoothing took, given back

    def _log_reading(self, spot: Spot) -> float:
        return math.log(self._wholes[spot].items_per_s)

    def truth(self, point: Point) -> float | None:
        """Return the items/s of a setting, or None beyond the capacity."""
        spot = spot_of(point)
        return self._truth[spot.batch, spot.workers, spot.precision] if self._fits(spot) else None

    def full_cost_s(self, point: Point) -> float:
        """Return the recorded duration of a full trial."""
        spot = spot_of(point)
        return self._wholes[spot].duration_s if self._fits(spot) else END_S

    def trials(self, seed: int) -> Callable[[Probe], ProbeResult]:
        """Return a function that replays trials."""
        rng, error = Random(f"{self.name}/{seed}"), SMALL_NET.errors(f"{self.name}/noise/{seed}")

        def take(probe: Probe) -> ProbeResult:
            spot = spot_of(probe.point)
            if probe.part is not Part.LOADER and not self._fits(spot):
                return out_of_memory(probe, END_S)
            row, value = self._part(spot, probe.part)
            window_s = max(_shortest_s(row), row.window_s * probe.effort)
            cost = row.duration_s - (row.window_s - window_s)
            if self._as_recorded:
                value *= math.exp(rng.choice(self._residuals[spot.batch]) * math.sqrt(0.5 + 0.5 / probe.effort))
            else:
                value /= error(window_s, cost)
            peak = None if probe.part is Part.LOADER else self._peak_bytes(spot)
            return ProbeResult(
                probe, Status.OK, cost, value, peak, row.wait_share, spot.batch / value, window_s=window_s
            )

        return take

    def _part(self, spot: Spot, part: Part) -> tuple[Row, float]:
        """Return the trial that was recorded of a part, and its true items/s."""
        if part is Part.DEVICE:
            return self._devices[spot.batch, spot.precision], self._device_rates[spot.batch, 0, spot.precision]
        if part is Part.LOADER:
            return self._loaders[spot.batch, spot.workers], self._loader_rates[spot.batch, spot.workers, "fp32"]
        return self._wholes[spot], self._truth[spot.batch, spot.workers, spot.precision]

    def _peak_bytes(self, spot: Spot) -> float:
        return float(self._devices[spot.batch, spot.precision].peak_rss_bytes or 0)

    def _fits(self, spot: Spot) -> bool:
        return self.capacity_bytes is None or self._peak_bytes(spot) <= self.capacity_bytes


def _shortest_s(row: Row) -> float:
    """Return the shortest window there is: four steps, and two turns of the loader."""
    workers = 0 if row.kind == "device" else row.workers
    return min(row.window_s, max(4, 2 * PREFETCH * workers) * row.batch / row.items_per_s)


def noise_of(readings: Any) -> Any:
    """Return the sd of one reading of each of SETTINGS, from how its two readings differ, pooled over batch sizes.

    Twelve pairs say little of their own batch size: the two next to it are taken with them.
    """
    batch = np.array([setting[0] for setting in SETTINGS])
    squares = [np.mean((readings[batch == b, 0] - readings[batch == b, 1]) ** 2) / 2.0 for b in BATCHES]
    pooled = {b: math.sqrt(np.mean(squares[max(0, n - 1) : n + 2])) for n, b in enumerate(BATCHES)}
    return np.array([pooled[b] for b in batch.tolist()])


def _rates(settings: Sequence[Setting], rows: Sequence[Row], noise: Mapping[int, float]) -> dict[Setting, float]:
    """Return the smoothed items/s of a part, read once at each setting."""
    readings = np.log([[row.items_per_s] for row in rows])
    found = np.exp(smooth(settings, readings, np.array([noise[setting[0]] for setting in settings])))
    return dict(zip(settings, found.tolist(), strict=True))


def smooth(settings: Sequence[Setting], readings: Any, noise: Any) -> Any:
    """Return the predicted ln(items/s) of each setting from one or more readings of each and the noise of one."""
    batch, workers, precision = (np.array(column) for column in zip(*settings, strict=True))
    x, w = np.log2(batch.astype(float)), np.log2(1.0 + workers.astype(float))
    apart = np.subtract.outer(x, x)
    alike = np.equal.outer(precision, precision).astype(float)
    serial = np.equal.outer(workers == 0, workers == 0)  # without workers another program runs
    near_workers = np.where(serial, np.exp(-0.5 * np.subtract.outer(w, w) ** 2), 0.0)
    means = readings.mean(axis=1)
    error = np.diag(noise**2 / readings.shape[1])
    likeliest, found = -math.inf, means
    for length, common, by_precision, by_workers, own in itertools.product(
        (1.0, 1.7, 3.0), (1.0, 2.0), (0.05, 0.15, 0.4), (0.05, 0.15, 0.4), (0.003, 0.02, 0.06)
    ):
        near = np.exp(-0.5 * (apart / length) ** 2)
        kernel = near * (common**2 + by_precision**2 * alike + by_workers**2 * near_workers * (1.0 + 0.5 * alike))
        kernel += 10.0 + own**2 * np.eye(len(means))
        lower = np.linalg.cholesky(kernel + error)
        white = np.linalg.solve(lower, means)
        likelihood = -0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum())
        if likelihood > likeliest:
            likeliest, found = likelihood, kernel @ np.linalg.solve(lower.T, white)
    return found


@cache
def recorded(*, as_recorded: bool = False) -> tuple[Recorded, ...]:
    """Return the surfaces of all recordings there are, with measured noise or with their own."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        grid = json.loads(path.read_text(encoding="utf-8"))
        found.append(Recorded(grid["name"], [Row(*row) for row in grid["rows"]], as_recorded=as_recorded))
    return tuple(found)
