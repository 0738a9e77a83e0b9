"""The posterior of every point, given the readings so far: a Gaussian process around the structure of a step.

The structure's parameters and what it leaves over (a smooth function for the device, one for the loader, one for
both together) are inferred jointly: the model is linearised at its estimate and solved, a few times over,
which is Gauss and Newton's way to the most probable state, each step halved until it makes the state more probable
(Nocedal & Wright, Numerical Optimization, 2006, §3.1 and §10.3); the linear model there gives the covariances (Laplace;
Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, §2.2, §2.7 and §3.4). All is in ln(s an item).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import NamedTuple, Protocol, TypeVar

from torchstone.core.schema.axis import LOADER_AXES, AxisStage, Scalar, axes_of
from torchstone.core.schema.search import Part, Point, ProbeResult, SearchProblem
from torchstone.plugins.searchers._ledger import key_of, value_of

# The Cholesky factor of a small positive definite matrix, and what is solved with it, in plain Python.
#
# For the some dozens of readings of a search: a library for matrices would take longer to import than all of this to
# run.

Vector = Sequence[float]
Matrix = Sequence[Vector]


def factor(matrix: Matrix) -> list[list[float]]:
    """Return lower triangular rows L (row i has i + 1 entries) with L Lᵀ = matrix; only its lower half is read.

    Raises ValueError if the matrix is not positive definite (Golub & Van Loan, Matrix Computations, §4.2).
    """
    rows: list[list[float]] = []
    for i, given in enumerate(matrix):
        row: list[float] = []
        for j in range(i):
            above = rows[j]
            row.append((given[j] - sum(map(mul, row, above))) / above[j])
        rest = given[i] - sum(map(mul, row, row))
        if not rest > 0.0:
            raise ValueError(f"the matrix is not positive definite: pivot {i} is {rest:g}")
        row.append(math.sqrt(rest))
        rows.append(row)
    return rows


def forward(lower: Matrix, right: Vector) -> list[float]:
    """Return x with L x = right."""
    x: list[float] = []
    for row, value in zip(lower, right, strict=True):
        x.append((value - sum(map(mul, row, x))) / row[-1])
    return x


def solve(lower: Matrix, right: Vector) -> list[float]:
    """Return x with L Lᵀ x = right."""
    x = forward(lower, right)
    for i in reversed(range(len(x))):
        row = lower[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]
    return x


def log_determinant(lower: Matrix) -> float:
    """Return the logarithm of the determinant of L Lᵀ."""
    return 2.0 * sum(math.log(row[-1]) for row in lower)


BATCH, WORKERS, PIN = "batch_size", "num_workers", "pin_memory"
BOTH = axes_of(AxisStage.BATCH, AxisStage.ITEM, AxisStage.HOST)  # what loader and device both feel

Values = tuple[Scalar, ...]
Key = TypeVar("Key")


class DeviceKey(NamedTuple):
    """What the device sees of a point: a batch, and the values of the other axes that matter to it."""

    batch: float
    log_batch: float
    others: Values


class LoaderKey(NamedTuple):
    """What the loader sees of a point."""

    batch: float
    log_batch: float
    workers: int
    log_workers: float
    others: Values


class Space:
    """Every point once, with the keys of its device's and its loader's part."""

    def __init__(self, brief: SearchProblem) -> None:
        unique = {key_of(point): point for point in brief.points}
        self.points: tuple[Point, ...] = tuple(unique.values())
        self.number = {key: n for n, key in enumerate(unique)}
        self.axes = tuple(axis for axis in brief.axes if len({point[axis] for point in self.points}) > 1)
        self.device_axes = tuple(a for a in self.axes if a != BATCH and a not in LOADER_AXES)
        self.loader_axes = tuple(a for a in self.axes if a in BOTH + LOADER_AXES and a not in {BATCH, WORKERS, PIN})
        self.device_keys: list[DeviceKey] = []
        self.loader_keys: list[LoaderKey] = []
        self.pinned = [point.get(PIN) is True for point in self.points]
        self.device_of = _numbered([self._device_key(p) for p in self.points], self.device_keys)
        self.loader_of = _numbered([self._loader_key(p) for p in self.points], self.loader_keys)
        self.combinations = sorted({k.others for k in self.device_keys}, key=[k.others for k in self.device_keys].index)

    def _device_key(self, point: Point) -> DeviceKey:
        batch = _positive(point.get(BATCH))
        return DeviceKey(batch, math.log2(batch), tuple(point.get(a) for a in self.device_axes))

    def _loader_key(self, point: Point) -> LoaderKey:
        batch = _positive(point.get(BATCH))
        given = point.get(WORKERS, 1)  # unknown: there are some
        workers = int(given) if isinstance(given, int | float) else 1
        others = tuple(point.get(a) for a in self.loader_axes)
        return LoaderKey(batch, math.log2(batch), workers, math.log2(1 + max(0, workers)), others)

    def key(self, number: int, part: Part) -> tuple[Part, int]:
        """Return what a probe of a part of a point measures: equal keys tell the same."""
        return part, {Part.WHOLE: number, Part.DEVICE: self.device_of[number], Part.LOADER: self.loader_of[number]}[
            part
        ]


def _numbered(keys: list[Key], distinct: list[Key]) -> list[int]:
    numbers: dict[Key, int] = {}
    for key in keys:
        if key not in numbers:
            numbers[key] = len(distinct)
            distinct.append(key)
    return [numbers[key] for key in keys]


def _positive(value: Scalar) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 1.0


# What is known of a step before any is measured: how loader, transfer and device share its time.
#
# A device issues a batch in `launch` and computes it at `item` an item, the longer of the two counting softly
# (Williams, Waterman & Patterson, Roofline, CACM 52(4), 2009): small batches are launch-bound, large ones saturate. A
# loader spends `work` on an item and `batch` on each batch, divided among workers until cores run out (Amdahl 1967) and
# contention takes over (the linear term of Gunther's universal scalability law, 1993); handing a batch over is serial.
# Without workers loader and device take turns; with them they overlap, more or less (`overlap`). Every parameter has a
# prior, so that a few readings are enough, and is the logarithm of what it stands for, so that errors are relative.

Parameters = Sequence[float]
OFFSET_SD = 0.5  # ln: what a precision, a compile mode, … may do to the time of an item
LAUNCH_OFFSET_SD = 0.3  # ln: and to that of a launch: autocast casts

_PRIORS: Mapping[str, tuple[float, float]] = {  # natural logarithms: mean, sd
    "launch": (math.log(3e-3), 1.7),
    "item": (math.log(1e-3), 3.0),
    "sharpness": (0.5, 0.4),  # 1: launch and compute add up, as on a CPU; large: they overlap
    "work": (math.log(1e-3), 2.5),
    "batch": (math.log(3e-4), 0.8),
    "cores": (math.log(5.0), 1.0),  # beside the first
    "contention": (math.log(0.12), 0.8),
    "handover": (math.log(6e-4), 1.0),
    "handover_item": (math.log(0.02), 1.0),  # as a share of `work`
    "overlap": (1.0, 1.5),
    "transfer": (math.log(0.05), 1.3),  # of an item, as a share of `item`
    "pinned": (math.log(0.25), 0.4),  # as a share of `transfer`
    "felt": (math.log(0.03), 1.3),  # share of the loader's work that the device feels: they share cores
}
NAMES = tuple(_PRIORS)
(_LAUNCH, _ITEM, _SHARP, _WORK, _BATCH, _CORES, _CONTENTION, _HAND, _HAND_ITEM, _OVERLAP, _TRANSFER, _PINNED, _FELT) = (
    range(len(NAMES))
)


class Whole(NamedTuple):
    """ln of the time of an item, end to end, and how much of it follows the device's and the loader's own time."""

    log_s: float
    of_device: float
    of_loader: float


class Structure:
    """The parametric part of a belief about a separable objective. Values are -ln(items/s), that is ln(s an item)."""

    def __init__(self, space: Space) -> None:
        self._space = space
        offsets = [
            (position, value)
            for position in range(len(space.device_axes))
            for value in dict.fromkeys(c[position] for c in space.combinations)
        ]
        base = len(NAMES)
        number = {offset: base + n for n, offset in enumerate(offsets)}
        self._offsets = {
            c: tuple(number[position, value] for position, value in enumerate(c)) for c in space.combinations
        }
        self._launches = {c: tuple(n + len(offsets) for n in own) for c, own in self._offsets.items()}
        self.of_device: Sequence[int] = (_LAUNCH, _ITEM, _SHARP, *range(base, base + 2 * len(offsets)))
        self.of_loader: Sequence[int] = (_WORK, _BATCH, _CORES, _CONTENTION, _HAND, _HAND_ITEM)
        self.of_whole: Sequence[int] = (_ITEM, _WORK, _HAND, _HAND_ITEM, _OVERLAP, _TRANSFER, _PINNED, _FELT)
        self.means = [mean for mean, _ in _PRIORS.values()] + [0.0] * (2 * len(offsets))
        self.sds = [sd for _, sd in _PRIORS.values()] + [OFFSET_SD] * len(offsets) + [LAUNCH_OFFSET_SD] * len(offsets)

    def device(self, p: Parameters, key: DeviceKey) -> float:
        """Return ln of the device's time for an item."""
        log_item = p[_ITEM] + sum(p[n] for n in self._offsets[key.others])
        log_launch = p[_LAUNCH] + sum(p[n] for n in self._launches[key.others])
        sharp = math.exp(p[_SHARP])
        return log_item + _log_add(0.0, sharp * (log_launch - log_item) - sharp * math.log(key.batch)) / sharp

    def loader(self, p: Parameters, key: LoaderKey) -> float:
        """Return ln of the loader's time for an item."""
        work = math.exp(p[_WORK]) + math.exp(p[_BATCH]) / key.batch
        if key.workers <= 0:
            return math.log(work)
        cores = 1.0 + math.exp(p[_CORES])
        hands = (key.workers**-4.0 + cores**-4.0) ** -0.25
        crowd = 1.0 + math.exp(p[_CONTENTION]) * max(0.0, key.workers - cores) / cores
        return math.log(((work * crowd / hands) ** 4.0 + self._handover(p, key) ** 4.0) ** 0.25)

    @staticmethod
    def _handover(p: Parameters, key: LoaderKey) -> float:
        return math.exp(p[_HAND]) / key.batch + math.exp(p[_WORK] + p[_HAND_ITEM])

    def whole(self, p: Parameters, point: int, log_device: float, log_loader: float) -> Whole:
        """Return a whole step's time for an item, from the device's and the loader's (ln)."""
        space = self._space
        key = space.loader_keys[space.loader_of[point]]
        device, loader = math.exp(log_device), math.exp(log_loader)
        crossing = math.exp(p[_ITEM] + p[_TRANSFER])
        busy = device + crossing * (math.exp(p[_PINNED]) if space.pinned[point] else 1.0)
        if key.workers <= 0:
            total = busy + loader
            return Whole(math.log(total), device / total, loader / total)
        busy += math.exp(p[_WORK] + p[_FELT]) + 0.3 * self._handover(p, key)
        q = 1.0 + math.exp(p[_OVERLAP])
        ratio = q * (math.log(busy) - log_loader)
        share = 1.0 / (1.0 + math.exp(min(700.0, -ratio)))
        return Whole(log_loader + _log_add(0.0, ratio) / q, share * device / busy, 1.0 - share)


class Flat:
    """The same for an objective that is not a rate: a line over ln(batch), and an offset for each other value."""

    def __init__(self, space: Space) -> None:
        self._space = space
        axes = [axis for axis in space.axes if axis != BATCH]
        offsets = list(dict.fromkeys((axis, point[axis]) for axis in axes for point in space.points))
        number = {offset: 2 + n for n, offset in enumerate(offsets)}
        self._offsets = [tuple(number[axis, point[axis]] for axis in axes) for point in space.points]
        self.of_device: Sequence[int] = ()
        self.of_loader: Sequence[int] = ()
        self.of_whole: Sequence[int] = range(2 + len(offsets))
        self.means = [0.0, 0.0] + [0.0] * len(offsets)
        self.sds = [10.0, 0.7] + [OFFSET_SD] * len(offsets)

    def device(self, p: Parameters, key: DeviceKey) -> float:
        """Return 0: there are no parts."""
        return 0.0

    def loader(self, p: Parameters, key: LoaderKey) -> float:
        """Return 0: there are no parts."""
        return 0.0

    def whole(self, p: Parameters, point: int, log_device: float, log_loader: float) -> Whole:
        """Return -ln of the objective."""
        batch = self._space.device_keys[self._space.device_of[point]].log_batch
        return Whole(p[0] + p[1] * batch + sum(p[n] for n in self._offsets[point]), 0.0, 0.0)


def _log_add(a: float, b: float) -> float:
    """Return ln(eᵃ + eᵇ)."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


# How alike points are expected to be in what the structure of a step does not tell, and how noisy readings are.
#
# Noise is of ln, on a quiet machine: about what benchmarks/surfaces/noise.py tells of a small and of a large net.

TRIAL_SD = 0.028  # between trials of the same code
WITHIN_S, WITHIN_SD = 5e-4, 0.055  # variance within a window: so much ÷ its seconds, at most that squared
WINDOW_S = 5.0  # a full window where it is not told
DRIFT_SD, DRIFT_S = 0.03, 150.0  # what trials near in time have in common


class Amplitudes(NamedTuple):
    """How far reality may be from the structure, in ln."""

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
    """Squared exponentials over log2(batch) and log2(1 + workers) (Rasmussen & Williams 2006, §4.2), in ln squared."""

    def __init__(self, space: Space, amplitudes: Amplitudes) -> None:
        self._space, self._amplitudes = space, amplitudes
        self._devices: dict[int, float] = {}
        self._loaders: dict[int, float] = {}
        self._points: dict[int, float] = {}
        self._stride = len(space.points)

    def device(self, a: int, b: int) -> float:
        """Return the prior covariance of what the structure leaves over at two device keys."""
        found = self._devices.get(a * self._stride + b)
        if found is None:
            one, other = self._space.device_keys[a], self._space.device_keys[b]
            size = self._amplitudes
            apart = one.log_batch - other.log_batch
            found = size.device**2 * _near(apart, 2.5)
            if one.others == other.others:
                found += size.device_values**2 * _near(apart, 2.0)
            if a == b:
                found += size.device_key**2
            self._devices[a * self._stride + b] = found
        return found

    def loader(self, a: int, b: int) -> float:
        """Return the same of two loader keys."""
        found = self._loaders.get(a * self._stride + b)
        if found is None:
            one, other = self._space.loader_keys[a], self._space.loader_keys[b]
            size = self._amplitudes
            batches = _near(one.log_batch - other.log_batch, 3.0) * (1.0 if one.others == other.others else 0.8)
            found = size.loader**2 * batches * _near(one.log_workers - other.log_workers, 1.5)
            if one.workers == other.workers:
                found += size.loader_workers**2 * batches
            self._loaders[a * self._stride + b] = found
        return found

    def point(self, a: int, b: int) -> float:
        """Return the same of two points, of what is left over by their parts, too."""
        found = self._points.get(a * self._stride + b)
        if found is None:
            space, size = self._space, self._amplitudes
            one, other = space.loader_keys[space.loader_of[a]], space.loader_keys[space.loader_of[b]]
            batches, workers = one.log_batch - other.log_batch, one.log_workers - other.log_workers
            near = size.far * _near(batches, 5.0) * _near(workers, 3.0)
            near += (1.0 - size.far) * _near(batches, 2.5) * _near(workers, 1.5)
            if one.workers <= 0 and other.workers <= 0:
                near *= size.serial**2
            elif one.workers <= 0 or other.workers <= 0:  # another program
                near *= size.serial * 0.3
            if space.pinned[a] != space.pinned[b]:
                near *= 0.98
            values = space.device_keys[space.device_of[a]].others, space.device_keys[space.device_of[b]].others
            if values[0] != values[1]:
                near *= 0.7
            found = size.whole**2 * near
            if a == b:
                found += size.point**2
            self._points[a * self._stride + b] = found
        return found


def _near(apart: float, length: float) -> float:
    ratio = apart / length
    return math.exp(-0.5 * ratio * ratio)


def noise_variance(window_s: float) -> float:
    """Return the variance of a reading's own noise, its window that long."""
    return TRIAL_SD**2 + min(WITHIN_SD**2, WITHIN_S / max(1e-9, window_s))


def drift(apart_s: float) -> float:
    """Return the covariance of the drift of two readings, so many seconds apart."""
    return DRIFT_SD**2 * math.exp(-abs(apart_s) / DRIFT_S)


_H = 1e-4

Asked = tuple[Part, int]  # a part, and the number of the point


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
    """One observable, linearised: its prediction, and what it depends on."""

    mean: float
    slopes: list[float]  # by parameter, each in units of its prior sd
    device: int
    of_device: float
    loader: int
    of_loader: float
    point: int | None  # end to end


class State:
    """A value for each parameter, and what is left over at each device and loader key that is of interest."""

    def __init__(self, space: Space, shape: Shape, p: Parameters) -> None:
        self.p = list(p)
        self.device_rest = [0.0] * len(space.device_keys)
        self.loader_rest = [0.0] * len(space.loader_keys)
        self._space, self._shape = space, shape
        self._devices: dict[int, tuple[float, list[float]]] = {}
        self._loaders: dict[int, tuple[float, list[float]]] = {}

    def means(self, asked: Iterable[Asked]) -> list[float]:
        """Return what a probe of each part of a point would read, ln(s an item)."""
        space, shape, p, found = self._space, self._shape, self.p, []
        for part, number in asked:
            device, loader = space.device_of[number], space.loader_of[number]
            log_device = log_loader = 0.0
            if part is not Part.LOADER:
                log_device = shape.device(p, space.device_keys[device]) + self.device_rest[device]
            if part is not Part.DEVICE:
                log_loader = shape.loader(p, space.loader_keys[loader]) + self.loader_rest[loader]
            if part is Part.WHOLE:
                found.append(shape.whole(p, number, log_device, log_loader).log_s)
            else:
                found.append(log_device if part is Part.DEVICE else log_loader)
        return found

    def row(self, part: Part, number: int) -> Row:
        """Return a probe of a part of a point, linearised here."""
        device, loader = self._space.device_of[number], self._space.loader_of[number]
        log_device, device_slopes = self._device_part(device)
        if part is Part.DEVICE:
            return Row(log_device, device_slopes, device, 1.0, loader, 0.0, None)
        log_loader, loader_slopes = self._loader_part(loader)
        if part is Part.LOADER:
            return Row(log_loader, loader_slopes, device, 0.0, loader, 1.0, None)
        whole = self._shape.whole(self.p, number, log_device, log_loader)
        slopes = [whole.of_device * a + whole.of_loader * b for a, b in zip(device_slopes, loader_slopes, strict=True)]
        for k in self._shape.of_whole:
            moved = self._moved(k)
            away = self._shape.whole(moved, number, log_device, log_loader).log_s - whole.log_s
            slopes[k] += away / _H * self._shape.sds[k]
        return Row(whole.log_s, slopes, device, whole.of_device, loader, whole.of_loader, number)

    def _device_part(self, device: int) -> tuple[float, list[float]]:
        """Return the prediction for a device key, and its slopes by parameter."""
        found = self._devices.get(device)
        if found is None:
            key, tell = self._space.device_keys[device], self._shape.device
            here = tell(self.p, key)
            slopes = [0.0] * len(self.p)
            for k in self._shape.of_device:
                slopes[k] = (tell(self._moved(k), key) - here) / _H * self._shape.sds[k]
            found = self._devices[device] = (here + self.device_rest[device], slopes)
        return found

    def _loader_part(self, loader: int) -> tuple[float, list[float]]:
        """Return the prediction for a loader key, and its slopes by parameter."""
        found = self._loaders.get(loader)
        if found is None:
            key, tell = self._space.loader_keys[loader], self._shape.loader
            here = tell(self.p, key)
            slopes = [0.0] * len(self.p)
            for k in self._shape.of_loader:
                slopes[k] = (tell(self._moved(k), key) - here) / _H * self._shape.sds[k]
            found = self._loaders[loader] = (here + self.loader_rest[loader], slopes)
        return found

    def _moved(self, parameter: int) -> list[float]:
        moved = list(self.p)
        moved[parameter] += _H
        return moved


def parametric(a: Row, b: Row) -> float:
    """Return the prior covariance of two rows that comes from the parameters."""
    total: float = sum(map(mul, a.slopes, b.slopes))
    return total


def distance(p: Parameters, shape: Shape) -> list[float]:
    """Return how far parameters are from their prior means, each in its prior sd."""
    return [(now - mean) / sd for now, mean, sd in zip(p, shape.means, shape.sds, strict=True)]


def unlikely(p: Parameters, shape: Shape) -> float:
    """Return the squares of that, summed up."""
    away = distance(p, shape)
    return math.fsum(map(mul, away, away))


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
                (here[0] + a, here[1] + b)
                for a, b in _NEIGHBOURS
                if 0 <= here[0] + a < len(NOISIER) and 0 <= here[1] + b < len(ROUGHER)
            ]
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
            value
            - row.mean
            + sum(map(mul, row.slopes, now))
            + row.of_device * state.device_rest[row.device]
            + row.of_loader * state.loader_rest[row.loader]
            for row, value in zip(self._rows, self._heard, strict=True)
        ]

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
