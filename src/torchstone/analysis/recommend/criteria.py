"""By what something is recommended: speed, per watt, per memory, per price. More is better in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from torchstone.config.prices import Prices
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task
from torchstone.core.schema.memory_figures import memory_figures
from torchstone.storage.measured import Measured

_GB = 1e9
_HOUR_S = 3600.0
_RATES = {Task.GENERATE: ("output_token_throughput", "token")}


class Criterion(msgspec.Struct, frozen=True):
    """`of`: a Case in a run → the value of each trial that has one; `figure`: whose multiple or inverse that is."""

    name: str
    of: Callable[[Measured], list[float]]
    unit: Callable[[Measured], str]
    figure: Callable[[Measured], str]


def criterion(name: str, prices: Prices | None = None) -> Criterion:
    """Return the criterion of that name. Raises UsageError for `price` without prices."""
    if name == "price":
        if prices is None or not prices.offers:
            raise UsageError(
                "--by price needs the price per hour of each device: --prices FILE (example in docs/cost.md)"
            )
        table = prices
        return Criterion(
            "price", lambda one: _per_price(one, table),
            lambda one: f"{rate_of(one)[1]}s/{table.currency}", _rate,
        )  # fmt: skip
    return _OTHERS[name]


def rate_of(one: Measured) -> tuple[str, str]:
    """Return the figure that is the speed of a task, and what it counts."""
    return _RATES.get(one.case.workload.task, ("throughput", one.case.workload.item))


def _rate(one: Measured) -> str:
    return rate_of(one)[0]


def memory_of(one: Measured) -> Sequence[float]:
    """Return the peak memory of trials, in bytes: on the CPU the process's, on an accelerator the device's own."""
    peaks = _peaks(one)
    return peaks if None not in peaks else [held for held in peaks if held is not None]  # type: ignore[return-value]


def _peaks(one: Measured) -> Sequence[float | None]:
    """Return the peak memory of each trial; of none at all nothing. See `peak_memory`."""
    columns: list[Sequence[float | None]] = []
    for name in memory_figures(one.case.placement.device):
        column = one.figures.get(name)
        if column is not None:
            if not columns and None not in column:
                return column  # of no trial a lesser figure is asked for
            columns.append(column)
    return [next((held for held in trial if held is not None), None) for trial in zip(*columns, strict=True)]


def _speed(one: Measured) -> list[float]:
    return one.values(rate_of(one)[0])


def _per_watt(one: Measured) -> list[float]:
    return [1.0 / used for used in one.values("energy_per_item_j") if used]


def _per_memory(one: Measured) -> list[float]:
    rates = one.figures.get(rate_of(one)[0], ())
    return [rate / (held / _GB) for rate, held in zip(rates, _peaks(one), strict=False) if rate and held]


def _per_price(one: Measured, prices: Prices) -> list[float]:
    offer = prices.of(one.device_name)
    if offer is None:
        return []
    return [rate * _HOUR_S / (offer.per_hour * one.case.placement.paid) for rate in _speed(one) if rate]


_OTHERS = {
    "speed": Criterion("speed", _speed, lambda one: f"{rate_of(one)[1]}s/s", _rate),
    "energy": Criterion("energy", _per_watt, lambda one: f"{one.case.workload.item}s/J", lambda _: "energy_per_item_j"),
    "memory": Criterion("memory", _per_memory, lambda one: f"{rate_of(one)[1]}s/s per GB", lambda _: ""),
}
