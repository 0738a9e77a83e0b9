"""The posterior of every point, given the readings so far: a Gaussian process around a parametric model of a step.

The model's parameters and its residuals (a smooth function for the device, one for the loader, one for both together)
are inferred jointly: the model is linearised at its estimate and solved, a few times over, each step halved until it
makes the state more probable (Gauss-Newton; Nocedal & Wright, Numerical Optimization, 2006, §3.1 and §10.3); the linear
model there gives the covariances (Laplace; Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, §2.2,
§2.7 and §3.4). All values are ln(s per item).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from torchstone.core.schema.axis import LOADER_AXES, AxisStage, Scalar, axes_of
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
        self.items = _ids(tuple(point.get(a) for a in loader_axes) for point in self.points)
        self.device = _ids(zip(self.batch, self.values, strict=True))
        self.loader = _ids(zip(self.batch, self.workers, self.items, strict=True))

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
LAUNCH_OFFSET_SD = 0.3  # ln: and on that of a launch: autocast casts
_PRIORS = {  # natural logarithms: mean, sd
    "launch": (math.log(3e-3), 1.7),
    "item": (math.log(1e-3), 3.0),
    "sharpness": (0.5, 0.4),  # 1: launch and compute add up, as on a CPU; large: they overlap
    "work": (math.log(1e-3), 2.5),
    "batch": (math.log(3e-4), 0.8),
    "cores": (math.log(5.0), 1.0),  # beyond the first
    "contention": (math.log(0.12), 0.8),
    "handover": (math.log(6e-4), 1.0),
    "handover_item": (math.log(0.02), 1.0),  # as a share of `work`
    "overlap": (1.0, 1.5),
    "transfer": (math.log(0.05), 1.3),  # per item, as a share of `item`
    "pinned": (math.log(0.25), 0.4),  # as a share of `transfer`
    "felt": (math.log(0.03), 1.3),  # share of the loader's work that slows the device: they share cores
}


class StepPrediction(NamedTuple):
    """ln(s per item) by part, a row each, and the whole's elasticity to the device's and to the loader's own time."""

    log_s: Array
    of_device: Array
    of_loader: Array


class Model(Protocol):
    """The parametric part of the belief. `step` takes parameters and residuals of any leading shape."""

    means: Array
    sds: Array

    def step(self, p: Array, device_rest: Array, loader_rest: Array) -> StepPrediction: ...


class StepModel:
    """The model of a separable objective: a rate, to which device and loader contribute."""

    def __init__(self, space: PointSpace) -> None:
        self._space, self._offsets = space, space.one_hot(space.device_axes)
        count = self._offsets.shape[1]
        means, sds = zip(*_PRIORS.values(), strict=True)
        self.means = np.array([*means, *[0.0] * (2 * count)])
        self.sds = np.array([*sds, *[OFFSET_SD] * count, *[LAUNCH_OFFSET_SD] * count])

    def step(self, p: Array, device_rest: Array, loader_rest: Array) -> StepPrediction:
        """Return the prediction for every point."""
        batch, workers, count = self._space.batch, self._space.workers, len(_PRIORS)
        launch, item, sharp, work, per_batch, cores, crowding, hand, hand_item, overlap, transfer, pinned, felt = (
            p[..., k, None] for k in range(count)
        )
        of_item, of_launch = np.split(p[..., count:], 2, axis=-1)
        log_item = item + of_item @ self._offsets.T
        sharp = np.exp(sharp)
        ratio = sharp * (launch + of_launch @ self._offsets.T - log_item - np.log(batch))
        log_device = log_item + np.logaddexp(0.0, ratio) / sharp + device_rest

        item_s, handover_s = np.exp(work) + np.exp(per_batch) / batch, np.exp(hand) / batch + np.exp(work + hand_item)
        cores = 1.0 + np.exp(cores)
        hands = (np.maximum(workers, 1) ** -4.0 + cores**-4.0) ** -0.25
        crowd = 1.0 + np.exp(crowding) * np.maximum(0.0, workers - cores) / cores
        log_loader = np.log(item_s * crowd / hands)
        log_loader += 0.25 * np.logaddexp(0.0, 4.0 * (np.log(handover_s) - log_loader))
        log_loader = np.where(workers > 0, log_loader, np.log(item_s)) + loader_rest

        device, loader = np.exp(log_device), np.exp(log_loader)
        busy = device + np.exp(item + transfer) * np.where(self._space.pinned, np.exp(pinned), 1.0)
        in_turn = busy + loader
        busy = busy + np.exp(work + felt) + 0.3 * handover_s
        q = 1.0 + np.exp(overlap)
        ratio = q * (np.log(busy) - log_loader)
        softly = np.logaddexp(0.0, ratio)
        share = np.exp(ratio - softly)
        whole = np.where(workers > 0, log_loader + softly / q, np.log(in_turn))
        of_device = np.where(workers > 0, share * device / busy, device / in_turn)
        of_loader = np.where(workers > 0, 1.0 - share, loader / in_turn)
        return StepPrediction(np.stack([whole, log_device, log_loader]), of_device, of_loader)


class LineModel:
    """The model of an objective that is not a rate: a line over ln(batch), and an offset per value of other axes."""

    def __init__(self, space: PointSpace) -> None:
        offsets = space.one_hot(axis for axis in space.axes if axis != BATCH)
        self._design = np.column_stack([np.ones(len(space.points)), space.log_batch, offsets])
        self.means = np.zeros(self._design.shape[1])
        self.sds = np.array([10.0, 0.7, *[OFFSET_SD] * offsets.shape[1]])

    def step(self, p: Array, device_rest: Array, loader_rest: Array) -> StepPrediction:
        """Return -ln of the objective; there are no parts."""
        whole = p @ self._design.T
        none = np.zeros_like(whole)
        return StepPrediction(np.stack([whole, none, none]), none, none)


# Noise is in ln, for a quiet machine: about what benchmarks/surfaces/noise.py has of a small and of a large net.
TRIAL_SD = 0.028  # between trials of the same code
WITHIN_S, WITHIN_SD = 5e-4, 0.055  # variance within a window: that ÷ its seconds, at most that squared
WINDOW_S = 5.0  # a full window, where the reading does not have it
DRIFT_SD, DRIFT_S = 0.03, 150.0  # trials near in time share this


def noise_variance(window_s: Array) -> Array:
    """Return the variance of a reading's own noise, by the length of its window."""
    return TRIAL_SD**2 + np.minimum(WITHIN_SD**2, WITHIN_S / np.maximum(1e-9, window_s))


class Amplitudes(NamedTuple):
    """How far reality may be from the model, in ln."""

    device: float = 0.10
    device_values: float = 0.07
    device_key: float = 0.04
    loader: float = 0.10
    loader_workers: float = 0.04
    whole: float = 0.12
    serial: float = 0.7  # of `whole`, without workers: loader and device take turns, and their times add up
    far: float = 0.3  # share of `whole` (squared) that changes slowly, so that a trend goes on
    point: float = 0.01


class Kernels:
    """Squared exponentials over log2(batch) and log2(1 + workers) (Rasmussen & Williams 2006, §4.2), in ln squared.

    Each method returns the prior covariance of the residuals of points `a` with those of points `b`, row by column.
    """

    def __init__(self, space: PointSpace, amplitudes: Amplitudes) -> None:
        self._space, self._size = space, amplitudes

    def device(self, a: Array, b: Array) -> Array:
        """Return the covariance of the device's residuals."""
        space, size = self._space, self._size
        apart = _apart(space.log_batch, a, b)
        near = size.device**2 * _near(apart, 2.5)
        near += size.device_values**2 * _near(apart, 2.0) * _equal(space.values, a, b)
        return near + size.device_key**2 * _equal(space.device, a, b)

    def loader(self, a: Array, b: Array) -> Array:
        """Return that of the loader's."""
        space, size = self._space, self._size
        batches = _near(_apart(space.log_batch, a, b), 3.0) * np.where(_equal(space.items, a, b), 1.0, 0.8)
        near = size.loader**2 * _near(_apart(space.log_workers, a, b), 1.5)
        return batches * (near + size.loader_workers**2 * _equal(space.workers, a, b))

    def whole(self, a: Array, b: Array) -> Array:
        """Return that of whole steps: what the residuals of their parts leave."""
        space, size = self._space, self._size
        batches, workers = _apart(space.log_batch, a, b), _apart(space.log_workers, a, b)
        near = size.far * _near(batches, 5.0) * _near(workers, 3.0)
        near += (1.0 - size.far) * _near(batches, 2.5) * _near(workers, 1.5)
        alone = (space.workers[a] == 0)[:, None], (space.workers[b] == 0)[None, :]
        # a loader without workers is another program than one with them
        near *= np.where(alone[0] & alone[1], size.serial**2, np.where(alone[0] | alone[1], size.serial * 0.3, 1.0))
        near *= np.where(_equal(space.pinned, a, b), 1.0, 0.98) * np.where(_equal(space.values, a, b), 1.0, 0.7)
        return size.whole**2 * near + size.point**2 * (a[:, None] == b[None, :])

    def diagonals(self, points: Array) -> tuple[Array, Array, Array]:
        """Return the variances of the residuals of the device, of the loader and of whole steps."""
        size, ones = self._size, np.ones(len(points))
        whole = size.whole**2 * np.where(self._space.workers[points] == 0, size.serial**2, 1.0) + size.point**2
        device = size.device**2 + size.device_values**2 + size.device_key**2
        return device * ones, (size.loader**2 + size.loader_workers**2) * ones, whole


def _apart(column: Array, a: Array, b: Array) -> Array:
    return column[a][:, None] - column[b][None, :]


def _equal(column: Array, a: Array, b: Array) -> Array:
    return column[a][:, None] == column[b][None, :]


def _near(apart: Array, length: float) -> Array:
    return np.exp(-0.5 * (apart / length) ** 2)


class Observables(NamedTuple):
    """Several probes: the part and the point of each."""

    parts: Array
    points: Array


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
    """Means and covariances of all probes, given the readings.

    A residual is a weighted sum of kernels at the readings; `_pull` holds the device's and the loader's weights.
    """

    def __init__(self, space: PointSpace, model: Model, amplitudes: Amplitudes) -> None:
        self._space, self._model, self._kernels = space, model, Kernels(space, amplitudes)
        self._all = np.arange(len(space.points))
        self._p = model.means
        self._pull = np.zeros((2, 0))
        self.noisier = self.rougher = 1.0
        self.learn([])

    def learn(self, readings: Sequence[ProbeResult]) -> None:
        """Condition on all readings so far; invalid ones are left out."""
        clock = np.cumsum([reading.cost_s for reading in readings])
        valid = [n for n, reading in enumerate(readings) if (value_of(reading) or 0.0) > 0.0]
        used = [readings[n] for n in valid]
        self._read = Observables(
            np.array([NUMBER_OF[r.probe.part] for r in used], dtype=int),
            np.array([self._space.number_of(r.probe.point) for r in used], dtype=int),
        )
        self._values = -np.log([value_of(r) or 1.0 for r in used])
        windows = [WINDOW_S * r.probe.effort if r.window_s is None else r.window_s for r in used]
        times = clock[valid] if valid else np.zeros(0)
        drift = DRIFT_SD**2 * np.exp(-np.abs(times[:, None] - times[None, :]) / DRIFT_S)
        self._noise = drift + np.diag(noise_variance(np.array(windows)))
        points = self._read.points
        self._has = np.array([self._read.parts != LOADER, self._read.parts != DEVICE, self._read.parts == WHOLE])
        self._to_device = self._kernels.device(self._all, points)
        self._to_loader = self._kernels.loader(self._all, points)
        self._to_whole = self._kernels.whole(self._all, points) * self._has[2]
        self._pull = np.pad(self._pull, ((0, 0), (0, len(used) - self._pull.shape[1])))
        self._fit()
        if len(used) >= _ENOUGH:
            self._weigh()
            self._fit()

    def _fit(self) -> None:
        """Move to the most probable state, and linearise there."""
        whole = self._has[2][:, None] * self._to_whole[self._read.points]
        rest = np.linalg.cholesky(self.rougher**2 * whole + self.noisier**2 * self._noise)
        now = self._improbable(self._p, self._pull, rest)
        self._linearise()
        for _ in range(_STEPS if len(self._values) else 0):
            target = self._model.means + self._model.sds * (self._weights @ self._slopes_of(self._read))
            pulled = self._weights * np.array(self._shares(self._read))
            longest = float(np.max(np.abs(target - self._p)))
            share = min(1.0, _LONGEST / longest) if longest else 1.0
            for _halving in range(_HALVINGS):
                p, pull = self._p + share * (target - self._p), self._pull + share * (pulled - self._pull)
                then = self._improbable(p, pull, rest)
                if then <= now:
                    break
                share /= 2.0
            if then > now:
                break
            gain, now = now - then, then
            self._p, self._pull = p, pull
            self._linearise()
            if share * longest < _CLOSE or gain < _CLOSE**2:
                break

    def _rests(self, pull: Array) -> tuple[Array, Array]:
        """Return the residuals of device and loader at every point."""
        return self.rougher**2 * self._to_device @ pull[0], self.rougher**2 * self._to_loader @ pull[1]

    def _improbable(self, p: Array, pull: Array, rest: Array) -> float:
        """Return -2 ln of the probability of a state, given the readings, but for a constant."""
        rests, points = self._rests(pull), self._read.points
        predicted = self._model.step(p, *rests).log_s[self._read.parts, points]
        misfit = np.linalg.solve(rest, self._values - predicted)
        away = (p - self._model.means) / self._model.sds
        return float(misfit @ misfit + pull[0] @ rests[0][points] + pull[1] @ rests[1][points] + away @ away)

    def _linearise(self) -> None:
        """Take the slopes of every prediction at the present state, and solve the linear model there."""
        rests = self._rests(self._pull)
        moved = self._p + np.vstack([np.zeros_like(self._p), _H * np.eye(len(self._p))])
        step = self._model.step(moved, *rests)
        self._mean, self._slopes = step.log_s[:, 0], np.moveaxis(step.log_s[:, 1:] - step.log_s[:, :1], 1, 2) / _H
        self._of = step.of_device[0], step.of_loader[0]
        away = self._slopes_of(self._read) @ ((self._p - self._model.means) / self._model.sds)
        shares, points = self._shares(self._read), self._read.points
        self._left = self._values - self._mean[self._read.parts, points] + away
        self._left = self._left + shares[0] * rests[0][points] + shares[1] * rests[1][points]
        prior = self.covariance(self._read, self._read)
        self._lower = np.linalg.cholesky(prior + self.noisier**2 * self._noise)
        self._weights = np.linalg.solve(self._lower.T, np.linalg.solve(self._lower, self._left))

    def _weigh(self) -> None:
        """Choose noise and roughness by the likelihood of the readings (Rasmussen & Williams, eq. 2.30).

        Both together: one alone would take for noise what the model does not explain.
        """
        slopes = self._slopes_of(self._read)
        parametric, residual = slopes @ slopes.T, self._residual(self._read, self._read)

        def improbable(noisier: float, rougher: float) -> float:
            lower = np.linalg.cholesky(parametric + rougher**2 * residual + noisier**2 * self._noise)
            misfit = np.linalg.solve(lower, self._left)
            doubt = (math.log(noisier) / NOISIER_SD) ** 2 + (math.log(rougher) / ROUGHER_SD) ** 2
            return float(misfit @ misfit + 2.0 * np.log(np.diag(lower)).sum() + doubt)

        pairs = [(noisier, rougher) for noisier in NOISIER for rougher in ROUGHER]
        self.noisier, self.rougher = min(pairs, key=lambda pair: improbable(*pair))

    def means(self, part: int = WHOLE) -> Array:
        """Return the posterior mean of a part of every point."""
        if part != WHOLE:
            return self._mean[part]
        return self._mean[WHOLE] + self.rougher**2 * self._to_whole @ self._weights

    def _slopes_of(self, probes: Observables) -> Array:
        """Return the slopes of probes by parameter, in units of its prior sd."""
        return self._slopes[probes.parts, probes.points] * self._model.sds

    def _shares(self, probes: Observables) -> tuple[Array, Array]:
        """Return the elasticity of probes to the device's and to the loader's time."""
        of_device, of_loader = (of[probes.points] for of in self._of)
        return (
            np.choose(probes.parts, [of_device, 1.0, 0.0]),
            np.choose(probes.parts, [of_loader, 0.0, 1.0]),
        )

    def covariance(self, a: Observables, b: Observables) -> Array:
        """Return the prior covariance of probes, row by column."""
        return self._slopes_of(a) @ self._slopes_of(b).T + self.rougher**2 * self._residual(a, b)

    def _residual(self, a: Observables, b: Observables) -> Array:
        (device_a, loader_a), (device_b, loader_b) = self._shares(a), self._shares(b)
        return (
            np.outer(device_a, device_b) * self._kernels.device(a.points, b.points)
            + np.outer(loader_a, loader_b) * self._kernels.loader(a.points, b.points)
            + np.outer(a.parts == WHOLE, b.parts == WHOLE) * self._kernels.whole(a.points, b.points)
        )

    def deviations(self, points: Array, answer: int) -> Array:
        """Return the posterior standard deviation of each point's difference to the answer; for itself, half its own.

        Half, since reading the answer again changes the choice only where it turns out worse.
        """
        several, one = (
            Observables(np.full(len(points), WHOLE), points),
            Observables(np.array([WHOLE]), np.array([answer])),
        )
        white, own = (np.linalg.solve(self._lower, self.covariance(self._read, p)) for p in (several, one))
        variance = self._variances(points) - (white**2).sum(axis=0)
        alone = float(self._variances(one.points)[0] - (own**2).sum())
        both = (self.covariance(several, one) - white.T @ own)[:, 0]
        return np.sqrt(np.maximum(0.0, np.where(points == answer, alone / 4.0, variance + alone - 2.0 * both)))

    def _variances(self, points: Array) -> Array:
        """Return the prior variances of whole steps: the diagonal of their covariance."""
        probes = Observables(np.full(len(points), WHOLE), points)
        of_device, of_loader = self._shares(probes)
        device, loader, whole = self._kernels.diagonals(points)
        residual = of_device**2 * device + of_loader**2 * loader + whole
        return (self._slopes_of(probes) ** 2).sum(axis=1) + self.rougher**2 * residual
