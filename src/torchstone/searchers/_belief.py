"""What is believed of every point, given the readings so far: a Gaussian process around the structure of a step.

The structure's parameters and what it leaves over (a smooth function for the device, one for the loader, one for
both together) are inferred jointly: the model is linearised where it is believed to be and solved, a few times over,
which is Gauss and Newton's way to the most probable state; the linear model there gives the covariances (Laplace;
Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, §2.2, §2.7 and §3.4). All is in ln(s an item).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple, Protocol

from torchstone.searchers._kernels import Amplitudes, Kernels
from torchstone.searchers._ledger import key_of, value_of
from torchstone.searchers._space import DeviceKey, LoaderKey, Space
from torchstone.searchers._structure import Parameters, Whole
from torchstone.stats.cholesky import factor, forward, log_determinant, solve
from torchstone.terms.search import Part, Reading

# Noise of ln of a reading, between what benchmarks/surfaces/noise.py tells of a small and of a large net.
TRIAL_SD = 0.022  # between trials of the same code
WINDOW_SD = 0.012  # within a window of full effort
DRIFT_SD, DRIFT_S = 0.03, 150.0  # what trials near in time have in common
NOISIER = (0.7, 1.0, 1.5, 2.2, 3.3, 5.0)  # a machine may be that much noisier; the readings tell
ROUGHER = (0.5, 0.7, 1.0, 1.5)  # and a surface that much further from the structure
_STEPS = 12
_LONGEST = 1.5  # a step of the iteration, in ln of a parameter
_CLOSE = 0.02
_ENOUGH_TO_LISTEN = 5
_H = 1e-4


class Shape(Protocol):
    """The parametric part of a belief."""

    means: list[float]
    sds: list[float]
    of_device: Sequence[int]  # the parameters that the device's time depends on
    of_loader: Sequence[int]
    of_whole: Sequence[int]  # those that the whole depends on beside its parts

    def device(self, p: Parameters, key: DeviceKey) -> float: ...
    def loader(self, p: Parameters, key: LoaderKey) -> float: ...
    def whole(self, p: Parameters, point: int, log_device: float, log_loader: float) -> Whole: ...


class Row(NamedTuple):
    """One thing that can be read, linearised: what is believed of it, and what it depends on."""

    mean: float
    slopes: list[float]  # by parameter, each in units of its prior sd
    device: int
    of_device: float
    loader: int
    of_loader: float
    point: int | None  # end to end


class Belief:
    """Learns from readings; tells means and covariances of what can be probed."""

    def __init__(self, space: Space, shape: Shape, amplitudes: Amplitudes) -> None:
        self._space, self._shape = space, shape
        self._kernels = Kernels(space, amplitudes)
        self._p = list(shape.means)
        self._device_rest = [0.0] * len(space.device_keys)
        self._loader_rest = [0.0] * len(space.loader_keys)
        self._rows: list[Row] = []
        self._drift: list[list[float]] = []
        self._drifted: list[float] = []
        self._lower: list[list[float]] = []
        self._weights: list[float] = []
        self._device_parts: dict[int, tuple[float, list[float]]] = {}
        self._loader_parts: dict[int, tuple[float, list[float]]] = {}
        self.noisier = self.rougher = 1.0

    def learn(self, readings: Iterable[Reading]) -> None:
        """Believe these readings, all that there are: what cannot be believed is left out."""
        asked: list[tuple[Part, int]] = []
        heard: list[float] = []
        noise: list[float] = []
        times: list[float] = []
        clock = 0.0
        for reading in readings:
            clock += reading.cost_s
            value = value_of(reading)
            if value is not None and value > 0.0:
                asked.append((reading.probe.part, self._space.number[key_of(reading.probe.point)]))
                heard.append(-math.log(value))
                noise.append(noise_variance(reading.probe.effort))
                times.append(clock)
        self._drift = [[_drift(a - b) for b in times[: n + 1]] for n, a in enumerate(times)]
        self._drifted = [_drift(clock - time) for time in times]
        self._fit(asked, heard, noise)
        if len(heard) >= _ENOUGH_TO_LISTEN:
            self._listen(heard, noise)
            self._fit(asked, heard, noise)

    def _fit(self, asked: Sequence[tuple[Part, int]], heard: Sequence[float], noise: Sequence[float]) -> None:
        for _ in range(_STEPS):
            self._solve(asked, heard, noise)
            if self._improve() < _CLOSE:
                break
        self._solve(asked, heard, noise)
        self._spread(range(len(self._device_rest)), range(len(self._loader_rest)), 1.0)

    def _listen(self, heard: Sequence[float], noise: Sequence[float]) -> None:
        """Choose noise and roughness by the likelihood of the readings (Rasmussen & Williams, eq. 2.30)."""
        rest = self._rests(heard)

        def unlikely(noisier: float, prior: list[list[float]]) -> float:
            lower = factor(self._with_noise(prior, noise, noisier))
            misfit = forward(lower, rest)
            doubt = (math.log(noisier) / 0.8) ** 2 + (math.log(self.rougher) / 0.6) ** 2
            return math.fsum(map(mul, misfit, misfit)) + log_determinant(lower) + doubt

        prior = self._prior_matrix()
        self.noisier = min(NOISIER, key=lambda noisier: unlikely(noisier, prior))
        found = {}
        for rougher in ROUGHER:
            self.rougher = rougher
            found[rougher] = unlikely(self.noisier, self._prior_matrix())
        self.rougher = min(ROUGHER, key=found.__getitem__)

    def _solve(self, asked: Sequence[tuple[Part, int]], heard: Sequence[float], noise: Sequence[float]) -> None:
        self._device_parts, self._loader_parts = {}, {}
        self._rows = [self.row(part, number) for part, number in asked]
        self._lower = factor(self._with_noise(self._prior_matrix(), noise, self.noisier))
        self._weights = solve(self._lower, self._rests(heard))

    def _rests(self, heard: Sequence[float]) -> list[float]:
        """Return what the readings differ from the prior mean, in the linear model around the present state."""
        now = [(p - mean) / sd for p, mean, sd in zip(self._p, self._shape.means, self._shape.sds, strict=True)]
        return [
            value - row.mean + sum(map(mul, row.slopes, now))
            + row.of_device * self._device_rest[row.device] + row.of_loader * self._loader_rest[row.loader]
            for row, value in zip(self._rows, heard, strict=True)
        ]  # fmt: skip

    def _with_noise(
        self, prior: Sequence[Sequence[float]], noise: Sequence[float], noisier: float
    ) -> list[list[float]]:
        scale = noisier**2
        matrix = [
            [value + scale * drift for value, drift in zip(row, drifts, strict=True)]
            for row, drifts in zip(prior, self._drift, strict=True)
        ]
        for n, variance in enumerate(noise):
            matrix[n][n] += scale * variance
        return matrix

    def _prior_matrix(self) -> list[list[float]]:
        return [[self.covariance(row, other) for other in self._rows[: n + 1]] for n, row in enumerate(self._rows)]

    def _improve(self) -> float:
        """Take one step towards the most probable state and return its length, in ln of a parameter."""
        pulls = [
            sum(map(mul, self._weights, column)) for column in zip(*(row.slopes for row in self._rows), strict=True)
        ]
        if not pulls:
            return 0.0
        steps = [
            mean + sd * pull - now
            for mean, sd, pull, now in zip(self._shape.means, self._shape.sds, pulls, self._p, strict=True)
        ]
        longest: float = max(map(abs, steps))
        share = min(1.0, _LONGEST / longest) if longest else 1.0
        self._p = [now + share * step for now, step in zip(self._p, steps, strict=True)]
        self._spread({row.device for row in self._rows}, {row.loader for row in self._rows}, share)
        return longest

    def _spread(self, devices: Iterable[int], loaders: Iterable[int], share: float) -> None:
        """Move what the structure leaves over at these keys by a share of the way to its most probable value."""
        scale = self.rougher**2
        on_device = [(w * row.of_device, row.device) for w, row in zip(self._weights, self._rows, strict=True)]
        on_loader = [(w * row.of_loader, row.loader) for w, row in zip(self._weights, self._rows, strict=True)]
        for keys, rests, pulled, kernel in (
            (devices, self._device_rest, on_device, self._kernels.device),
            (loaders, self._loader_rest, on_loader, self._kernels.loader),
        ):
            for n in keys:
                rests[n] += share * (scale * sum(w * kernel(n, other) for w, other in pulled if w) - rests[n])

    def means(self) -> list[float]:
        """Return what is believed of every point, end to end."""
        shape, space, p = self._shape, self._space, self._p
        devices = [shape.device(p, key) + r for key, r in zip(space.device_keys, self._device_rest, strict=True)]
        loaders = [shape.loader(p, key) + r for key, r in zip(space.loader_keys, self._loader_rest, strict=True)]
        scale = self.rougher**2
        read = [(w, row.point) for w, row in zip(self._weights, self._rows, strict=True) if row.point is not None]
        return [
            shape.whole(p, n, devices[space.device_of[n]], loaders[space.loader_of[n]]).log_s
            + scale * sum(w * self._kernels.point(n, point) for w, point in read)
            for n in range(len(space.points))
        ]

    def row(self, part: Part, number: int) -> Row:
        """Return a probe of a part of a point, linearised where the belief is."""
        device, loader = self._space.device_of[number], self._space.loader_of[number]
        log_device, device_slopes = self._device_part(device)
        if part is Part.DEVICE:
            return Row(log_device, device_slopes, device, 1.0, loader, 0.0, None)
        log_loader, loader_slopes = self._loader_part(loader)
        if part is Part.LOADER:
            return Row(log_loader, loader_slopes, device, 0.0, loader, 1.0, None)
        whole = self._shape.whole(self._p, number, log_device, log_loader)
        slopes = [whole.of_device * a + whole.of_loader * b for a, b in zip(device_slopes, loader_slopes, strict=True)]
        for k in self._shape.of_whole:
            moved = self._moved(k)
            away = self._shape.whole(moved, number, log_device, log_loader).log_s - whole.log_s
            slopes[k] += away / _H * self._shape.sds[k]
        return Row(whole.log_s, slopes, device, whole.of_device, loader, whole.of_loader, number)

    def _device_part(self, device: int) -> tuple[float, list[float]]:
        """Return what is believed of a device key, and its slopes by parameter."""
        found = self._device_parts.get(device)
        if found is None:
            key, tell = self._space.device_keys[device], self._shape.device
            here = tell(self._p, key)
            slopes = [0.0] * len(self._p)
            for k in self._shape.of_device:
                slopes[k] = (tell(self._moved(k), key) - here) / _H * self._shape.sds[k]
            found = self._device_parts[device] = (here + self._device_rest[device], slopes)
        return found

    def _loader_part(self, loader: int) -> tuple[float, list[float]]:
        """Return what is believed of a loader key, and its slopes by parameter."""
        found = self._loader_parts.get(loader)
        if found is None:
            key, tell = self._space.loader_keys[loader], self._shape.loader
            here = tell(self._p, key)
            slopes = [0.0] * len(self._p)
            for k in self._shape.of_loader:
                slopes[k] = (tell(self._moved(k), key) - here) / _H * self._shape.sds[k]
            found = self._loader_parts[loader] = (here + self._loader_rest[loader], slopes)
        return found

    def _moved(self, parameter: int) -> list[float]:
        moved = list(self._p)
        moved[parameter] += _H
        return moved

    def whitened(self, row: Row) -> list[float]:
        """Return a row's covariances with the readings, whitened: prior covariance minus their product is posterior."""
        return forward(self._lower, [self.covariance(row, other) for other in self._rows])

    def whitened_drift(self) -> list[float]:
        """Return what whitens the drift that a next reading shares with those before: to add to its whitened row."""
        return forward(self._lower, [self.noisier**2 * drift for drift in self._drifted])

    def reading_variance(self, effort: float, times: int) -> float:
        """Return the prior variance of the noise of the mean of `times` readings in a row: they share their drift."""
        return self.noisier**2 * (noise_variance(effort) / times + DRIFT_SD**2)

    def covariance(self, a: Row, b: Row) -> float:
        """Return the prior covariance of two rows."""
        total = 0.0
        if a.of_device and b.of_device:
            total += a.of_device * b.of_device * self._kernels.device(a.device, b.device)
        if a.of_loader and b.of_loader:
            total += a.of_loader * b.of_loader * self._kernels.loader(a.loader, b.loader)
        if a.point is not None and b.point is not None:
            total += self._kernels.point(a.point, b.point)
        parametric: float = sum(map(mul, a.slopes, b.slopes))
        return total * self.rougher**2 + parametric


def noise_variance(effort: float) -> float:
    """Return the variance of ln of a reading on a quiet machine."""
    return TRIAL_SD**2 + WINDOW_SD**2 / max(0.01, effort)


def _drift(apart_s: float) -> float:
    return DRIFT_SD**2 * math.exp(-abs(apart_s) / DRIFT_S)
