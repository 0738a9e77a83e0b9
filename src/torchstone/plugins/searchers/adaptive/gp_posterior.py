"""The posterior of every point, given the readings so far: a Gaussian process around the structure of a step.

The structure's parameters and what it leaves over (a smooth function for the device, one for the loader, one for
both together) are inferred jointly: the model is linearised at its estimate and solved, a few times over,
which is Gauss and Newton's way to the most probable state, each step halved until it makes the state more probable
(Nocedal & Wright, Numerical Optimization, 2006, §3.1 and §10.3); the linear model there gives the covariances (Laplace;
Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, §2.2, §2.7 and §3.4). All is in ln(s an item).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul

from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.stats.cholesky import Matrix, factor, forward, log_determinant, solve
from torchstone.plugins.searchers._ledger import key_of, value_of
from torchstone.plugins.searchers.adaptive.kernels import (
    DRIFT_SD,
    WINDOW_S,
    Amplitudes,
    Kernels,
    drift,
    noise_variance,
)
from torchstone.plugins.searchers.adaptive.space import Space
from torchstone.plugins.searchers.adaptive.state import Asked, Row, Shape, State, distance, parametric, unlikely
from torchstone.plugins.searchers.adaptive.structure import Parameters

NOISIER = (0.7, 1.0, 1.5, 2.2, 3.3, 5.0)  # a machine may be that much noisier; the readings tell
NOISIER_SD = 0.5  # ln
ROUGHER = (0.6, 0.8, 1.0, 1.5, 2.2, 3.3)  # and a surface that much further from the structure
ROUGHER_SD = 0.6
_NEIGHBOURS = ((-1, 0), (1, 0), (0, -1), (0, 1), (1, -1), (-1, 1))
_STEPS = 15
_HALVINGS = 5
_LONGEST = 1.5  # a step of the iteration, in ln of a parameter
_CLOSE = 0.02
_ENOUGH_TO_LISTEN = 5


Pulls = list[tuple[float, float]]  # what is left over, as weights of the readings' devices and loaders


class Posterior:
    """Learns from readings; tells means and covariances of what can be probed."""

    def __init__(self, space: Space, shape: Shape, amplitudes: Amplitudes) -> None:
        self._space, self._shape = space, shape
        self._kernels = Kernels(space, amplitudes)
        self._state = State(space, shape, shape.means)
        self._pulls: Pulls = []
        self._asked: list[Asked] = []
        self._heard: list[float] = []
        self._noise: list[float] = []
        self._rows: list[Row] = []
        self._drift: list[list[float]] = []
        self._drifted: list[float] = []
        self._lower: list[list[float]] = []
        self._weights: list[float] = []
        self.noisier = self.rougher = 1.0

    def learn(self, readings: Iterable[ProbeResult]) -> None:
        """Condition on these readings, all that there are; invalid ones are left out."""
        self._asked, self._heard, self._noise = [], [], []
        times: list[float] = []
        clock = 0.0
        for reading in readings:
            clock += reading.cost_s
            value = value_of(reading)
            if value is not None and value > 0.0:
                self._asked.append((reading.probe.part, self._space.number[key_of(reading.probe.point)]))
                self._heard.append(-math.log(value))
                window_s = WINDOW_S * reading.probe.effort if reading.window_s is None else reading.window_s
                self._noise.append(noise_variance(window_s))
                times.append(clock)
        self._drift = [[drift(a - b) for b in times[: n + 1]] for n, a in enumerate(times)]
        self._drifted = [drift(clock - time) for time in times]
        self._pulls += [(0.0, 0.0)] * (len(times) - len(self._pulls))
        self._fit()
        if len(times) >= _ENOUGH_TO_LISTEN:
            self._listen()
            self._fit()
        everywhere = range(len(self._space.device_keys)), range(len(self._space.loader_keys))
        self._leave_over(self._state, self._pulls, *everywhere)

    def _fit(self) -> None:
        """Move to the most probable state."""
        if not self._asked:
            self._solve()
            return
        own = [[self._own(n, m) for m in range(n + 1)] for n in range(len(self._asked))]
        rest = factor(self._with_noise(own, self.noisier))
        self._state = self._at(self._state.p, self._pulls)
        now = self._improbable(self._state, self._pulls, rest)
        for _ in range(_STEPS):
            self._solve()
            state, pulls, moved = self._step(rest, now)
            then = self._improbable(state, pulls, rest)
            if then > now:
                break
            self._state, self._pulls, gained, now = state, pulls, now - then, then
            if moved < _CLOSE or gained < _CLOSE**2:
                break
        self._solve()

    def _step(self, rest: Matrix, now: float) -> tuple[State, Pulls, float]:
        """Return where a step leads, halved until it makes the state more probable, and its length in ln."""
        slopes = zip(*(row.slopes for row in self._rows), strict=True)
        priors = zip(self._shape.means, self._shape.sds, slopes, strict=True)
        target = [mean + sd * sum(map(mul, self._weights, column)) for mean, sd, column in priors]
        pulled = [(w * row.of_device, w * row.of_loader) for w, row in zip(self._weights, self._rows, strict=True)]
        longest = max(abs(there - here) for there, here in zip(target, self._state.p, strict=True))
        share = min(1.0, _LONGEST / longest) if longest else 1.0
        for halving in range(_HALVINGS):
            share /= 2.0 if halving else 1.0
            p = [here + share * (there - here) for there, here in zip(target, self._state.p, strict=True)]
            pulls = [
                (a + share * (c - a), b + share * (d - b)) for (a, b), (c, d) in zip(self._pulls, pulled, strict=True)
            ]
            state = self._at(p, pulls)
            if self._improbable(state, pulls, rest) <= now:
                break
        return state, pulls, share * longest

    def _at(self, p: Parameters, pulls: Pulls) -> State:
        """Return a state, with what is left over at the keys of the readings."""
        state = State(self._space, self._shape, p)
        devices = {self._space.device_of[number] for _, number in self._asked}
        loaders = {self._space.loader_of[number] for _, number in self._asked}
        self._leave_over(state, pulls, devices, loaders)
        return state

    def _leave_over(self, state: State, pulls: Pulls, devices: Iterable[int], loaders: Iterable[int]) -> None:
        """Set what the structure leaves over at these keys: what the readings pull at each, by how alike they are."""
        scale, space = self.rougher**2, self._space
        on_device = [(a, space.device_of[n]) for (a, _), (_, n) in zip(pulls, self._asked, strict=True) if a]
        on_loader = [(b, space.loader_of[n]) for (_, b), (_, n) in zip(pulls, self._asked, strict=True) if b]
        for key in devices:
            state.device_rest[key] = scale * sum(a * self._kernels.device(key, other) for a, other in on_device)
        for key in loaders:
            state.loader_rest[key] = scale * sum(b * self._kernels.loader(key, other) for b, other in on_loader)

    def _improbable(self, state: State, pulls: Pulls, rest: Matrix) -> float:
        """Return -2 ln of how probable a state is, given the readings, but for a constant."""
        space = self._space
        misfit = forward(rest, [h - m for h, m in zip(self._heard, state.means(self._asked), strict=True)])
        left = math.fsum(
            a * state.device_rest[space.device_of[n]] + b * state.loader_rest[space.loader_of[n]]
            for (a, b), (_, n) in zip(pulls, self._asked, strict=True)
        )
        return math.fsum(map(mul, misfit, misfit)) + left + unlikely(state.p, self._shape)

    def _own(self, n: int, m: int) -> float:
        """Return the prior covariance of what two readings leave over beyond their parts."""
        (part, one), (other_part, other) = self._asked[n], self._asked[m]
        if part is not Part.WHOLE or other_part is not Part.WHOLE:
            return 0.0
        return self.rougher**2 * self._kernels.point(one, other)

    def _listen(self) -> None:
        """Choose noise and roughness by the likelihood of the readings (Rasmussen & Williams, eq. 2.30).

        Both together, from what was chosen last, as long as a neighbour is likelier: one alone would take what the
        structure does not tell for noise.
        """
        rest = self._rests()
        known = [[parametric(row, other) for other in self._rows[: n + 1]] for n, row in enumerate(self._rows)]
        left = [[self._left(row, other) for other in self._rows[: n + 1]] for n, row in enumerate(self._rows)]
        found: dict[tuple[int, int], float] = {}

        def unlikely_at(at: tuple[int, int]) -> float:
            if at not in found:
                noisier, rougher = NOISIER[at[0]], ROUGHER[at[1]]
                prior = [
                    [a + rougher**2 * b for a, b in zip(one, other, strict=True)]
                    for one, other in zip(known, left, strict=True)
                ]
                lower = factor(self._with_noise(prior, noisier))
                misfit = forward(lower, rest)
                doubt = (math.log(noisier) / NOISIER_SD) ** 2 + (math.log(rougher) / ROUGHER_SD) ** 2
                found[at] = math.fsum(map(mul, misfit, misfit)) + log_determinant(lower) + doubt
            return found[at]

        here = NOISIER.index(self.noisier), ROUGHER.index(self.rougher)
        while True:
            near = [
                (here[0] + a, here[1] + b) for a, b in _NEIGHBOURS
                if 0 <= here[0] + a < len(NOISIER) and 0 <= here[1] + b < len(ROUGHER)
            ]  # fmt: skip
            better = min(near, key=unlikely_at)
            if unlikely_at(better) >= unlikely_at(here):
                break
            here = better
        self.noisier, self.rougher = NOISIER[here[0]], ROUGHER[here[1]]

    def _solve(self) -> None:
        self._rows = [self._state.row(part, number) for part, number in self._asked]
        prior = [[self.covariance(row, other) for other in self._rows[: n + 1]] for n, row in enumerate(self._rows)]
        self._lower = factor(self._with_noise(prior, self.noisier))
        self._weights = solve(self._lower, self._rests())

    def _rests(self) -> list[float]:
        """Return what the readings differ from the prior mean, in the linear model around the present state."""
        state, now = self._state, distance(self._state.p, self._shape)
        return [
            value - row.mean + sum(map(mul, row.slopes, now))
            + row.of_device * state.device_rest[row.device] + row.of_loader * state.loader_rest[row.loader]
            for row, value in zip(self._rows, self._heard, strict=True)
        ]  # fmt: skip

    def _with_noise(self, prior: Sequence[Sequence[float]], noisier: float) -> list[list[float]]:
        scale = noisier**2
        matrix = [
            [value + scale * shared for value, shared in zip(row, drifts, strict=True)]
            for row, drifts in zip(prior, self._drift, strict=True)
        ]
        for n, variance in enumerate(self._noise):
            matrix[n][n] += scale * variance
        return matrix

    def means(self) -> list[float]:
        """Return the posterior of every point, end to end."""
        scale, everything = self.rougher**2, range(len(self._space.points))
        read = [(w, row.point) for w, row in zip(self._weights, self._rows, strict=True) if row.point is not None]
        return [
            mean + scale * sum(w * self._kernels.point(n, point) for w, point in read)
            for n, mean in zip(everything, self._state.means((Part.WHOLE, n) for n in everything), strict=True)
        ]

    def row(self, part: Part, number: int) -> Row:
        """Return a probe of a part of a point, linearised where the belief is."""
        return self._state.row(part, number)

    def whitened(self, row: Row) -> list[float]:
        """Return a row's covariances with the readings, whitened: prior covariance minus their product is posterior."""
        return forward(self._lower, [self.covariance(row, other) for other in self._rows])

    def whitened_drift(self) -> list[float]:
        """Return what whitens the drift that a next reading shares with those before: to add to its whitened row."""
        return forward(self._lower, [self.noisier**2 * shared for shared in self._drifted])

    def reading_variance(self, window_s: float, times: int) -> float:
        """Return the prior variance of the noise of the mean of `times` readings in a row: they share their drift."""
        return self.noisier**2 * (noise_variance(window_s) / times + DRIFT_SD**2)

    def covariance(self, a: Row, b: Row) -> float:
        """Return the prior covariance of two rows."""
        return parametric(a, b) + self.rougher**2 * self._left(a, b)

    def _left(self, a: Row, b: Row) -> float:
        """Return the prior covariance of what the structure leaves over of two rows."""
        total = 0.0
        if a.of_device and b.of_device:
            total += a.of_device * b.of_device * self._kernels.device(a.device, b.device)
        if a.of_loader and b.of_loader:
            total += a.of_loader * b.of_loader * self._kernels.loader(a.loader, b.loader)
        if a.point is not None and b.point is not None:
            total += self._kernels.point(a.point, b.point)
        return total
