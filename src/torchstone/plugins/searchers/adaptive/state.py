"""The estimate of a search: the structure's parameters and residuals; every probe is linearised around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple, Protocol

from torchstone.core.schema.search import Part
from torchstone.plugins.searchers.adaptive.space import DeviceKey, LoaderKey, Space
from torchstone.plugins.searchers.adaptive.structure import Parameters, Whole

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
