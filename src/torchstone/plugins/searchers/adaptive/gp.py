"""The posterior of every point, given the readings so far: a Gaussian process around a parametric model of a step.

The model's parameters and the residuals of whole steps (a smooth function) are inferred jointly: the model is
linearised at its estimate and solved, a few times over, each step halved until it makes the state more probable
(Gauss-Newton; Nocedal & Wright, Numerical Optimization, 2006, §3.1 and §10.3); the linear model there gives the
covariances (Laplace; Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, §2.2, §2.7 and §3.4). All
values are ln(s per item).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchstone.core.schema.axis import LOADER_AXES, VARIANT_AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.search import Part, Point, ProbeResult, SearchProblem
from torchstone.plugins.searchers._ledger import key_of, value_of

Array = NDArray[Any]

BATCH, WORKERS, PIN = "batch_size", "num_workers", "pin_memory"
BOTH = axes_of(AxisStage.BATCH, AxisStage.ITEM, AxisStage.HOST)  # axes that matter to the loader and to the device
WHOLE, DEVICE, LOADER = range(3)
NUMBER_OF = {Part.WHOLE: WHOLE, Part.DEVICE: DEVICE, Part.LOADER: LOADER}


class PointSpace:
    """Every point once, its features as columns. Points of one `device` (or `loader`) id share that part of a step."""

    def __init__(self, problem: SearchProblem) -> None:
        unique = {key_of(point): point for point in problem.points}
        self.points: tuple[Point, ...] = tuple(unique.values())
        self._number = {key: n for n, key in enumerate(unique)}
        self.axes = tuple(axis for axis in problem.axes if len({point[axis] for point in self.points}) > 1)
        self.device_axes = tuple(a for a in self.axes if a != BATCH and a not in LOADER_AXES)
        loader_axes = tuple(a for a in self.axes if a in BOTH + LOADER_AXES and a not in {BATCH, WORKERS, PIN})
        self.batch = np.array([_positive(point.get(BATCH)) for point in self.points])
        self.log_batch = np.log2(self.batch)
        workers = (point.get(WORKERS, 1) for point in self.points)  # loaders without this axis have some
        self.workers = np.array([max(0, int(w)) if isinstance(w, int | float) else 1 for w in workers])
        self.log_workers = np.log2(1 + self.workers)
        self.pinned = np.array([point.get(PIN) is True for point in self.points])
        self.values = _ids(tuple(point.get(a) for a in self.device_axes) for point in self.points)
        items = _ids(tuple(point.get(a) for a in loader_axes) for point in self.points)
        self.variants = _ids(tuple(point.get(a) for a in (*VARIANT_AXES, "precision")) for point in self.points)
        self.device = _ids(zip(self.batch, self.values, strict=True))
        self.loader = _ids(zip(self.batch, self.workers, items, strict=True))

    def number_of(self, point: Point) -> int:
        """Return the number of a point."""
        return self._number[key_of(point)]

    def key(self, number: int, part: int) -> tuple[int, int]:
        """Return what a probe measures: probes with equal keys measure the same."""
        return part, int((range(len(self.points)), self.device, self.loader)[part][number])

    def one_hot(self, axes: Iterable[str]) -> Array:
        """Return a column per value of these axes, 1 where a point has it."""
        values = dict.fromkeys((axis, point[axis]) for axis in axes for point in self.points)
        rows = [[float(point[axis] == value) for axis, value in values] for point in self.points]
        return np.array(rows).reshape(len(self.points), len(values))


def _ids(keys: Iterable[Hashable]) -> Array:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _positive(value: Scalar) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 1.0


# The prior model of a step: how loader, transfer and device share its time.
#
# A device issues a batch in `launch` and computes it at `item` per item, the longer of the two dominating softly
# (Williams, Waterman & Patterson, Roofline, CACM 52(4), 2009): small batches are launch-bound, large ones saturate. A
# loader spends `work` per item and `batch` per batch, divided among workers until cores run out (Amdahl 1967) and
# contention takes over (the linear term of Gunther's universal scalability law, 1993); handing a batch over is serial.
# Without workers loader and device take turns; with them they overlap, more or less (`overlap`). Every parameter has a
# prior, so that a few readings are enough, and is a logarithm, so that errors are relative.

OFFSET_SD = 0.5  # ln: the effect of a precision, a compile mode, … on the time per item
VARIANT_SD, SLOPE_SD = 0.4, 0.15  # ln: what a variant has of its own beside its runtime and format, and a doubling
LAUNCH_OFFSET_SD = 0.3  # ln: and on that of a launch: autocast casts
_PRIORS = {  # natural logarithms: mean, sd
    "launch": (math.log(3e-3), 1.7),
    "item": (math.log(1e-3), 3.0),
    "sharpness": (0.5, 0.4),  # 1: launch and compute add up, as on a CPU; large: they overlap
    "work": (math.log(1e-3), 2.5),
    "batch": (math.log(3e-4), 0.8),
    "cores": (math.log(5.0), 0.6),  # beyond the first; a wider one takes noise of few workers for the end of the cores
    "contention": (math.log(0.12), 0.8),
    "handover": (math.log(6e-4), 1.0),
    "handover_item": (math.log(0.02), 1.0),  # as a share of `work`
    "overlap": (1.0, 1.5),
    "transfer": (math.log(0.05), 1.3),  # per item, as a share of `item`
    "pinned": (math.log(0.25), 0.4),  # as a share of `transfer`
    "felt": (math.log(0.03), 1.3),  # share of the loader's work that slows the device: they share cores
}


class StepModel:
    """The model of a separable objective: a rate, to which device and loader contribute."""

    def __init__(self, space: PointSpace) -> None:
        self._space, self._offsets = space, space.one_hot(space.device_axes)
        count = self._offsets.shape[1]
        means, sds = zip(*_PRIORS.values(), strict=True)
        self.means = np.array([*means, *[0.0] * (2 * count)])
        self.sds = np.array([*sds, *[OFFSET_SD] * count, *[LAUNCH_OFFSET_SD] * count])

    def predict(self, p: Array) -> Array:
        """Return ln(s per item) of whole step, device and loader, a row each, by point; `p` of any leading shape."""
        batch, workers, count = self._space.batch, self._space.workers, len(_PRIORS)
        launch, item, sharp, work, per_batch, cores, crowding, hand, hand_item, overlap, transfer, pinned, felt = (
            p[..., k, None] for k in range(count)
        )
        of_item, of_launch = np.split(p[..., count:], 2, axis=-1)
        log_item = item + of_item @ self._offsets.T
        sharp = np.exp(sharp)
        ratio = sharp * (launch + of_launch @ self._offsets.T - log_item - np.log(batch))
        log_device = log_item + np.logaddexp(0.0, ratio) / sharp

        item_s, handover_s = np.exp(work) + np.exp(per_batch) / batch, np.exp(hand) / batch + np.exp(work + hand_item)
        cores = 1.0 + np.exp(cores)
        hands = (np.maximum(workers, 1) ** -4.0 + cores**-4.0) ** -0.25
        crowd = 1.0 + np.exp(crowding) * np.maximum(0.0, workers - cores) / cores
        log_loader = np.log(item_s * crowd / hands)
        log_loader += 0.25 * np.logaddexp(0.0, 4.0 * (np.log(handover_s) - log_loader))
        log_loader = np.where(workers > 0, log_loader, np.log(item_s))

        device, loader = np.exp(log_device), np.exp(log_loader)
        busy = device + np.exp(item + transfer) * np.where(self._space.pinned, np.exp(pinned), 1.0)
        in_turn = busy + loader
        busy = busy + np.exp(work + felt) + 0.3 * handover_s
        q = 1.0 + np.exp(overlap)
        overlapped = log_loader + np.logaddexp(0.0, q * (np.log(busy) - log_loader)) / q
        whole = np.where(workers > 0, overlapped, np.log(in_turn))
        return np.stack([whole, log_device, log_loader])


class LineModel:
    """The model of an objective that is not a rate: a line over ln(batch), and an offset per value of other axes.

    Each variant (runtime, format, precision) has a line of its own around it: a format that is fast in one runtime may
    be slow in the next.
    """

    def __init__(self, space: PointSpace) -> None:
        offsets = space.one_hot(axis for axis in space.axes if axis != BATCH)
        own = (space.variants[:, None] == np.unique(space.variants)).astype(float)
        if own.shape[1] < 2:
            own = own[:, :0]
        lines = [own, own * space.log_batch[:, None]]
        self._design = np.column_stack([np.ones(len(space.points)), space.log_batch, offsets, *lines])
        self.means = np.zeros(self._design.shape[1])
        count = own.shape[1]
        self.sds = np.array([10.0, 0.7, *[OFFSET_SD] * offsets.shape[1], *[VARIANT_SD] * count, *[SLOPE_SD] * count])

    def predict(self, p: Array) -> Array:
        """Return -ln of the objective; there are no parts."""
        whole = p @ self._design.T
        return np.stack([whole, np.zeros_like(whole), np.zeros_like(whole)])


# Noise is in ln, for a quiet machine: about what benchmarks/surfaces/noise.py has of a small and of a large net.
TRIAL_SD = 0.04  # between trials of the same code
WITHIN_S, WITHIN_SD = 5e-4, 0.055  # variance within a window: that ÷ its seconds, at most that squared
WINDOW_S = 5.0  # a full window, where the reading does not have it
MODEL_SD = 0.15  # ln: of what the model leaves
PART_SD = 0.06  # how far the model is from a device or a loader alone
SERIAL = 0.7  # of the residual, without workers: loader and device take turns, and their times add up
FAR = 0.3  # share of the residual (squared) that changes slowly, so that a trend goes on
POINT_SD = 0.01


class Residuals:
    """Of whole steps: squared exponentials over log2(batch) and log2(1 + workers) (Rasmussen & Williams 2006, §4.2)."""

    def __init__(self, space: PointSpace, sd: float) -> None:
        self._space, self._sd = space, sd

    def covariance(self, a: Array, b: Array) -> Array:
        """Return the prior covariance of points `a` with points `b`, row by column, in ln squared."""
        space = self._space
        batches, workers = _apart(space.log_batch, a, b), _apart(space.log_workers, a, b)
        near = FAR * _near(batches, 5.0) * _near(workers, 3.0)
        near += (1.0 - FAR) * _near(batches, 2.5) * _near(workers, 1.5)
        alone = (space.workers[a] == 0)[:, None], (space.workers[b] == 0)[None, :]
        # a loader without workers is another program than one with them
        near *= np.where(alone[0] & alone[1], SERIAL**2, np.where(alone[0] | alone[1], SERIAL * 0.3, 1.0))
        near *= np.where(_equal(space.pinned, a, b), 1.0, 0.98) * np.where(_equal(space.values, a, b), 1.0, 0.7)
        covariance: Array = self._sd**2 * near + POINT_SD**2 * (a[:, None] == b[None, :])
        return covariance

    def variances(self, points: Array) -> Array:
        """Return the diagonal of the covariance."""
        return self._sd**2 * np.where(self._space.workers[points] == 0, SERIAL**2, 1.0) + POINT_SD**2


def _apart(column: Array, a: Array, b: Array) -> Array:
    return column[a][:, None] - column[b][None, :]


def _equal(column: Array, a: Array, b: Array) -> Array:
    return np.equal(column[a][:, None], column[b][None, :])


def _near(apart: Array, length: float) -> Array:
    return np.exp(-0.5 * (apart / length) ** 2)


NOISIER = (0.7, 1.0, 1.5, 2.2, 3.3, 5.0)  # a machine may be this much noisier: chosen by the readings
NOISIER_SD = 0.5  # ln
ROUGHER = (0.6, 0.8, 1.0, 1.5, 2.2, 3.3)  # and a surface this much further from the model
ROUGHER_SD = 0.6
_H = 1e-4
_STEPS, _HALVINGS = 15, 5
_LONGEST = 1.5  # a step of the iteration, in ln of a parameter
_CLOSE = 0.02
_ENOUGH = 5  # readings, from which on their likelihood chooses noise and roughness


class Posterior:
    """Means of all probes and deviations of whole steps, given the readings."""

    def __init__(self, space: PointSpace, model: StepModel | LineModel) -> None:
        self._space, self._model, self._residuals = space, model, Residuals(space, MODEL_SD)
        self._p = model.means
        self.noisier = self.rougher = 1.0
        self.learn([])

    def learn(self, readings: Sequence[ProbeResult]) -> None:
        """Condition on all readings so far; invalid ones are left out."""
        used = [reading for reading in readings if (value_of(reading) or 0.0) > 0.0]
        self._parts = np.array([NUMBER_OF[r.probe.part] for r in used], dtype=int)
        self._points = np.array([self._space.number_of(r.probe.point) for r in used], dtype=int)
        self._values = -np.log([value_of(r) or 1.0 for r in used])
        windows_s = np.array([WINDOW_S * r.probe.effort if r.window_s is None else r.window_s for r in used])
        own = TRIAL_SD**2 + np.minimum(WITHIN_SD**2, WITHIN_S / np.maximum(1e-9, windows_s))
        self._noise = np.diag(own)
        whole = self._parts == WHOLE
        self._to_points = self._residuals.covariance(np.arange(len(self._space.points)), self._points) * whole
        self._residual = whole[:, None] * self._to_points[self._points] + PART_SD**2 * np.diag(~whole)
        self._fit()
        if len(used) >= _ENOUGH:
            self._weigh()
            self._fit()

    def _fit(self) -> None:
        """Move to the most probable parameters, and linearise there."""
        rest = np.linalg.cholesky(self.rougher**2 * self._residual + self.noisier**2 * self._noise)
        now = self._improbable(self._p, rest)
        self._linearise()
        for _ in range(_STEPS if len(self._values) else 0):
            target = self._model.means + self._model.sds * (self._weights @ self._read)
            longest = float(np.max(np.abs(target - self._p)))
            share = min(1.0, _LONGEST / longest) if longest else 1.0
            for _halving in range(_HALVINGS):
                p = self._p + share * (target - self._p)
                then = self._improbable(p, rest)
                if then <= now:
                    break
                share /= 2.0
            else:
                break
            gain, now, self._p = now - then, then, p
            self._linearise()
            if share * longest < _CLOSE or gain < _CLOSE**2:
                break

    def _improbable(self, p: Array, rest: Array) -> float:
        """Return -2 ln of the probability of parameters, given the readings, but for a constant."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step too long: no more probable, so it is halved
            predicted = self._model.predict(p)[self._parts, self._points]
        misfit = np.linalg.solve(rest, self._values - predicted)
        away = (p - self._model.means) / self._model.sds
        return float(misfit @ misfit + away @ away)

    def _linearise(self) -> None:
        """Take the slopes of every prediction, in units of the priors' sds, and solve the linear model there."""
        moved = self._p + np.vstack([np.zeros_like(self._p), _H * np.eye(len(self._p))])
        logs = self._model.predict(moved)
        self._mean = logs[:, 0]
        self._slopes = np.moveaxis(logs[:, 1:] - logs[:, :1], 1, 2) / _H * self._model.sds
        self._read = self._slopes[self._parts, self._points]
        away = self._read @ ((self._p - self._model.means) / self._model.sds)
        self._left = self._values - self._mean[self._parts, self._points] + away
        prior = self._read @ self._read.T + self.rougher**2 * self._residual
        self._lower = np.linalg.cholesky(prior + self.noisier**2 * self._noise)
        self._weights = np.linalg.solve(self._lower.T, np.linalg.solve(self._lower, self._left))

    def _weigh(self) -> None:
        """Choose noise and roughness by the likelihood of the readings (Rasmussen & Williams, eq. 2.30).

        Both together: one alone would take for noise what the model does not explain.
        """
        parametric = self._read @ self._read.T

        def improbable(noisier: float, rougher: float) -> float:
            lower = np.linalg.cholesky(parametric + rougher**2 * self._residual + noisier**2 * self._noise)
            misfit = np.linalg.solve(lower, self._left)
            doubt = (math.log(noisier) / NOISIER_SD) ** 2 + (math.log(rougher) / ROUGHER_SD) ** 2
            return float(misfit @ misfit + 2.0 * np.log(np.diag(lower)).sum() + doubt)

        pairs = [(noisier, rougher) for noisier in NOISIER for rougher in ROUGHER]
        self.noisier, self.rougher = min(pairs, key=lambda pair: improbable(*pair))

    def means(self, part: int = WHOLE) -> Array:
        """Return the posterior mean of a part of every point."""
        means: Array = self._mean[part]
        return means + self.rougher**2 * self._to_points @ self._weights if part == WHOLE else means

    def deviations(self, points: Array, answer: int) -> Array:
        """Return the posterior standard deviation of each point's difference to the answer; for itself, half its own.

        Half, since reading the answer again changes the choice only where it turns out worse.
        """
        slopes = self._slopes[WHOLE]
        one = np.array([answer])
        white, own = (
            np.linalg.solve(self._lower, self._read @ slopes[p].T + self.rougher**2 * self._to_points[p].T)
            for p in (points, one)
        )

        def variances(p: Array, whitened: Array) -> Array:
            parametric: Array = (slopes[p] ** 2).sum(axis=1) - (whitened**2).sum(axis=0)
            return parametric + self.rougher**2 * self._residuals.variances(p)

        both = slopes[points] @ slopes[answer] - white.T @ own[:, 0]
        both += self.rougher**2 * self._residuals.covariance(points, one)[:, 0]
        alone = float(variances(one, own)[0])
        return np.sqrt(
            np.maximum(0.0, np.where(points == answer, alone / 4.0, variances(points, white) + alone - 2.0 * both))
        )
