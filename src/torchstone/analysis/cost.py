"""What stored results cost: time, money, energy and carbon of a million items, an epoch, a training.

Money = price × time = price × items ÷ rate. So each interval is the rate's, turned over: its ends are the ends of the
rate's interval in the other order (a monotone transformation of both ends, Casella & Berger 2002, §9.2). Prices and
carbon intensities are taken as exact: they are the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.config.prices import HourlyPrice, PerKilowattHour, Prices
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate, Verdict
from torchstone.core.schema.trial import ended_well

_HOUR_S = 3600.0
_KWH_J = 3.6e6
_MILLION = 1e6
_ONE_TRAINING = "one training: no interval"


class Of(StrEnum):
    """What an amount is for."""

    MILLION = "million"
    EPOCH = "epoch"
    TRAINING = "training"
    MEASURED = "measured"  # a stored training, as long as it took


class Amounts(msgspec.Struct, frozen=True):
    """Time (h, of all devices at once), money, energy (kWh), its price and carbon (g CO₂ equivalent) of `items`.

    None: not known, which is never 0.
    """

    of: Of
    items: float | None
    time_h: Estimate | None = None
    money: Estimate | None = None
    energy_kwh: Estimate | None = None
    electricity: Estimate | None = None
    carbon_g: Estimate | None = None


class CaseCost(msgspec.Struct, frozen=True):
    """One Case at one price; `price` None: the table has none for its device. `item`: what is counted."""

    run_id: str
    run_name: str
    case_id: str
    task: str
    model: str
    data: str
    item: str
    configuration: Mapping[str, Scalar]
    device: str
    device_name: str
    devices: int
    verdict: Verdict
    price: HourlyPrice | None
    amounts: tuple[Amounts, ...]


class CostAnswer(msgspec.Struct, frozen=True):
    """What was asked, Case by Case; `without`: Cases that have no rate, in words."""

    currency: str | None
    cases: tuple[CaseCost, ...]
    unpriced: tuple[str, ...]
    electricity: PerKilowattHour | None
    carbon: PerKilowattHour | None
    epochs: float | None
    without: tuple[str, ...] = ()


class CostRequest(msgspec.Struct, frozen=True):
    """`epochs`: of a training; `items`: of an epoch, where the record does not know; `provider`: of the offers."""

    prices: Prices
    epochs: float | None = None
    items: float | None = None
    provider: str | None = None


def costs(runs: Sequence[RunSummary], request: CostRequest) -> CostAnswer:
    """Return what every Case of these runs costs. Raises UsageError for a provider that the table does not have."""
    known = list(dict.fromkeys(one.provider for one in request.prices.offers if one.provider))
    if request.provider is not None and request.provider not in known:
        there = f"known: {', '.join(known)}" if known else "no price of the table names one"
        raise UsageError(f"--provider {request.provider}: no such provider; {there}")
    found: list[CaseCost] = []
    without: list[str] = []
    for run in runs:
        for case in run.cases:
            if _rate(case) is None and not _took_h(run, case):
                without.append(f"{run.name}: {case.workload.task} {case.workload.model} on {case.placement}")
            else:
                found += _of_case(run, case, request)
    unpriced = dict.fromkeys(one.device_name for one in found if request.prices.offers and one.price is None)
    return CostAnswer(
        request.prices.currency,
        tuple(found),
        tuple(unpriced),
        request.prices.electricity,
        request.prices.carbon,
        request.epochs,
        tuple(dict.fromkeys(without)),
    )


def _of_case(run: RunSummary, case: CaseSummary, asked: CostRequest) -> Iterator[CaseCost]:
    placed = case.placement
    device = run.machine.device(placed.device, placed.index)
    name = device.name if device is not None else str(placed)
    offers = [one for one in asked.prices.all_of(name) if asked.provider in (None, one.provider)]
    choices: list[HourlyPrice | None] = [*offers] or [None]
    for offer in choices:
        yield CaseCost(
            run.run_id,
            run.name,
            case.case_id,
            str(case.workload.task),
            case.workload.model,
            case.workload.data,
            _counted(case),
            case.configuration,
            str(placed),
            name,
            placed.paid,
            case.verdict,
            offer,
            tuple(_amounts(run, case, offer, asked)),
        )


def _amounts(run: RunSummary, case: CaseSummary, offer: HourlyPrice | None, asked: CostRequest) -> Iterator[Amounts]:
    rate = _rate(case)
    if rate is not None:
        wanted = [(Of.MILLION, _MILLION)]
        epoch = asked.items or _fact(case, "dataset_items")
        if epoch is not None and case.workload.task != Task.GENERATE:
            wanted.append((Of.EPOCH, epoch))
            if asked.epochs is not None:
                wanted.append((Of.TRAINING, epoch * asked.epochs))
        for of, items in wanted:
            time_h = inverse(rate, items / _HOUR_S, "h")
            yield _priced(of, items, time_h, _energy_kwh(case, items), case, offer, asked.prices)
    took_h = _took_h(run, case)
    if took_h is not None:
        own = case.estimates.get("energy_j")
        used = None if own is None else times(own, 1.0 / _KWH_J, "kWh")
        yield _priced(Of.MEASURED, None, took_h, used, case, offer, asked.prices)


def _priced(
    of: Of,
    items: float | None,
    time_h: Estimate,
    energy_kwh: Estimate | None,
    case: CaseSummary,
    offer: HourlyPrice | None,
    prices: Prices,
) -> Amounts:
    paid, currency = case.placement.paid, prices.currency or ""
    power, carbon = prices.electricity, prices.carbon
    return Amounts(
        of,
        items,
        time_h,
        None if offer is None else times(time_h, offer.per_hour * paid, currency),
        energy_kwh,
        None if power is None or energy_kwh is None else times(energy_kwh, power.value, power.unit),
        None if carbon is None or energy_kwh is None else times(energy_kwh, carbon.value, carbon.unit),
    )


def _energy_kwh(case: CaseSummary, items: float) -> Estimate | None:
    """Return the energy of so many items; of generation they are output tokens, and a text has `new_tokens` of them."""
    each = case.estimates.get("energy_per_item_j")
    if each is None:
        return None
    made = _fact(case, "new_tokens") if case.workload.task == Task.GENERATE else 1.0
    return None if made is None else times(each, items / made / _KWH_J, "kWh")


def _rate(case: CaseSummary) -> Estimate | None:
    name = "output_token_throughput" if case.workload.task == Task.GENERATE else "throughput"
    found = case.estimates.get(name)
    return found if found is not None and found.value > 0.0 else None


def _counted(case: CaseSummary) -> str:
    return "token" if case.workload.task == Task.GENERATE else case.workload.item


def _took_h(run: RunSummary, case: CaseSummary) -> Estimate | None:
    """Return how long a stored training took, all of it: validation, checkpoints, starting; None of a measurement."""
    if run.procedure.fit is None or run.total_runtime_s is None or not ended_well(case.trials):
        return None
    hours = run.total_runtime_s / _HOUR_S
    return Estimate(hours, None, None, 0.95, "h", "measured once", 1, 1, note=_ONE_TRAINING)


def _fact(case: CaseSummary, name: str) -> float | None:
    told = (getattr(trial.facts, name) for trial in case.trials)
    return next((float(t) for t in told if isinstance(t, int | float) and not isinstance(t, bool) and t > 0), None)


def times(estimate: Estimate, factor: float, unit: str) -> Estimate:
    """Return an estimate times a positive constant, in another unit: the interval is multiplied by it, too."""
    ends = [None if end is None else factor * end for end in (estimate.low, estimate.high)]
    return msgspec.structs.replace(estimate, value=factor * estimate.value, low=ends[0], high=ends[1], unit=unit)


def inverse(estimate: Estimate, factor: float, unit: str) -> Estimate:
    """Return factor ÷ a positive estimate: the ends of its interval change places. An end at 0 or below is no bound."""
    bounded = estimate.low is not None and estimate.high is not None and estimate.low > 0.0
    low, high = (factor / estimate.high, factor / estimate.low) if bounded else (None, None)  # type: ignore[operator]
    return msgspec.structs.replace(estimate, value=factor / estimate.value, low=low, high=high, unit=unit)
