"""By what something is recommended: speed, per watt, per memory, per price. More is better in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from torchstone.config.prices import Prices
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task
from torchstone.core.schema.memory_figures import PEAKS, peak_memory
from torchstone.storage.measured import Measured

_GB = 1e9
_HOUR_S = 3600.0
_RATES = {Task.GENERATE: ("output_token_throughput", "token")}
# What must be read of every trial for any of these.
FIGURES = (
    "throughput", "output_token_throughput", "energy_per_item_j", *PEAKS, "step_time", "loss_rate_per_1000_items",
    "achieved_flops",
)  # fmt: skip


class Criterion(msgspec.Struct, frozen=True):
    """`of`: a trial's figures, and the Case → the value; None where it was not measured."""

    name: str
    of: Callable[[Mapping[str, float], Measured], float | None]
    unit: Callable[[Measured], str]


def criterion(name: str, prices: Prices | None = None) -> Criterion:
    """Return the criterion of that name. Raises UsageError for `price` without prices."""
    if name == "price":
        if prices is None or not prices.offers:
            raise UsageError(
                "--by price needs the price per hour of each device: --prices FILE (example in docs/cost.md)"
            )
        table = prices
        return Criterion(
            "price", lambda values, one: _per_price(values, one, table),
            lambda one: f"{rate_of(one)[1]}s/{table.currency}",
        )  # fmt: skip
    return _OTHERS[name]


def rate_of(one: Measured) -> tuple[str, str]:
    """Return the figure that is the speed of a task, and what it counts."""
    return _RATES.get(one.case.workload.task, ("throughput", one.case.workload.item))


def memory_of(values: Mapping[str, float], one: Measured) -> float | None:
    """Return the peak memory of a trial, in bytes: on the CPU the process's, on an accelerator the device's own."""
    return peak_memory(values, one.case.placement.device)


def _speed(values: Mapping[str, float], one: Measured) -> float | None:
    return values.get(rate_of(one)[0])


def _per_watt(values: Mapping[str, float], _: Measured) -> float | None:
    used = values.get("energy_per_item_j")
    return 1.0 / used if used else None


def _per_memory(values: Mapping[str, float], one: Measured) -> float | None:
    rate, held = _speed(values, one), memory_of(values, one)
    return rate / (held / _GB) if rate and held else None


def _per_price(values: Mapping[str, float], one: Measured, prices: Prices) -> float | None:
    rate, offer = _speed(values, one), prices.of(one.device_name)
    return rate * _HOUR_S / (offer.per_hour * one.case.placement.paid) if rate and offer else None


_OTHERS = {
    "speed": Criterion("speed", _speed, lambda one: f"{rate_of(one)[1]}s/s"),
    "energy": Criterion("energy", _per_watt, lambda one: f"{one.case.workload.item}s/J"),
    "memory": Criterion("memory", _per_memory, lambda one: f"{rate_of(one)[1]}s/s per GB"),
}
