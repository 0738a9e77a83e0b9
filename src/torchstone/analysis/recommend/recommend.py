"""Hardware and settings, from all that is stored."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.analysis.recommend.candidates import (
    RankedOffer,
    Vary,
    as_they_came,
    criterion,
    device_and_settings,
    entered,
    memory_of,
    what_is_computed,
)
from torchstone.analysis.recommend.hardware import Hardware, family_of, hardware
from torchstone.analysis.recommend.parameters import Settings, losses_of, not_as_good, recommended_settings, worse_of
from torchstone.config.prices import HourlyPrice, Prices
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.case import Task
from torchstone.storage.index import Problem
from torchstone.storage.measured import MeasuredCase, measured_kept
from torchstone.storage.place import Place

K = TypeVar("K")
_MOST_READ_BYTES = 192 * 2**20  # of records, for their losses


class RecommendRequest(msgspec.Struct, frozen=True):
    """What to recommend for: a family, a model (or a part of its name), a task; None: all."""

    by: str = "speed"
    family: str | None = None
    model: str | None = None
    task: str | None = None
    prices: Prices | None = None


class Recommendation(msgspec.Struct, frozen=True):
    """`hardware`: one a family and task; `settings`: one a workload and device. `runs`: how many are stored.

    `prices`: of the devices that have one, by name, in `currency`.
    """

    by: str
    hardware: tuple[Hardware, ...]
    settings: tuple[Settings, ...]
    runs: int
    readings: int
    currency: str | None = None
    unpriced: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    prices: Mapping[str, HourlyPrice] = {}


def recommend(place: Place, request: RecommendRequest) -> Recommendation:
    """Return what the store says. Raises UsageError for a task, family or model that it does not have."""
    with _uncollected():
        return _recommended(place, request)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of cycles, of which there are none, from going through a million objects again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _recommended(place: Place, asked: RecommendRequest) -> Recommendation:
    by = criterion(asked.by, asked.prices)
    store = measured_kept(place)
    ours = _selected(store.measured, asked)
    budget = [_MOST_READ_BYTES]
    told: list[Settings] = []
    entrants: dict[str, list[RankedOffer]] = {}
    counts: Counter[str] = Counter()
    worse: dict[tuple[str, str], Mapping[tuple[str, str], Statement]] = {}
    unproven: dict[tuple[str, str], Collection[str]] = {}
    rates: dict[tuple[str, str], Vary] = {}
    for key, group in _groups(ours, _workload_and_device).items():
        every = entered(group, by, device_and_settings)
        entrants.setdefault(key[0], []).extend(every)
        counts[key[0]] += len(group)
        losses = losses_of(place, group, budget) if group[0].case.workload.task == Task.TRAIN else []
        if found_worse := worse_of(losses):
            worse[key] = found_worse
        if lesser := not_as_good(group):
            unproven[key] = lesser
        if (found := recommended_settings(group, every, by, losses)) is not None:
            told.append(found)
            if found.learning is not None and found.learning.best is not None:
                rates[key] = {"learning_rate": [found.learning.best]}

    def ran_of(what: str, group: Sequence[MeasuredCase]) -> Sequence[RankedOffer]:
        if len(group) < counts[what]:  # some are recorded with another family
            return entered(group, by, device_and_settings)
        return as_they_came(entrants[what], group)

    def refused(one: MeasuredCase) -> bool:
        if unproven and one.case_id in unproven.get(_workload_and_device(one), ()):
            return True
        return _is_refused(one, worse.get(_workload_and_device(one), {}) if worse else {})

    def learned(one: MeasuredCase) -> Vary:
        return rates.get(_workload_and_device(one), {})

    offers = _offers(ours, asked.prices)
    families = _groups(ours, lambda one: (family_of(one), one.case.workload.task))
    devices = [
        hardware(group, by, ran_of, refused, lambda name: _per_hour(offers, name), learned)
        for group in families.values()
    ]
    unpriced = {name for name, offer in offers.items() if offer is None}
    return Recommendation(
        asked.by,
        tuple(one for one in devices if one is not None),
        tuple(told),
        store.runs,
        len(ours),
        asked.prices.currency if asked.prices is not None else None,
        tuple(sorted(unpriced)),
        store.problems,
        {name: offer for name, offer in sorted(offers.items()) if offer is not None},
    )


def _offers(readings: Sequence[MeasuredCase], prices: Prices | None) -> dict[str, HourlyPrice | None]:
    """Return the offer of each device by its name; nothing where no prices were asked for."""
    return {} if prices is None else {one.device_name: prices.of(one.device_name) for one in readings}


def _per_hour(offers: Mapping[str, HourlyPrice | None], name: str) -> float | None:
    offer = offers.get(name)
    return None if offer is None else offer.per_hour


def _selected(readings: Sequence[MeasuredCase], asked: RecommendRequest) -> list[MeasuredCase]:
    if asked.task is not None and asked.task not in list(Task):
        raise unknown("task", asked.task, Task)
    found = [one for one in readings if asked.task in (None, one.case.workload.task)]
    if asked.family is not None:
        families = {family_of(one) for one in found}
        if asked.family not in families and readings:
            raise unknown("family", asked.family, families)
        found = [one for one in found if family_of(one) == asked.family]
    if asked.model is not None:
        word = asked.model.casefold()
        models = {one.case.workload.model for one in found}
        found = [one for one in found if word in one.case.workload.model.casefold()]
        if not found and readings:
            raise unknown("model", asked.model, models)
    if not found and readings:
        raise UsageError(f"no case of task {asked.task} is stored here; `torchstone runs` lists the stored runs")
    return found


def _groups(readings: Sequence[MeasuredCase], key: Callable[[MeasuredCase], K]) -> dict[K, list[MeasuredCase]]:
    found: dict[K, list[MeasuredCase]] = {}
    for one in readings:
        found.setdefault(key(one), []).append(one)
    return found


def _workload_and_device(one: MeasuredCase) -> tuple[str, str]:
    return what_is_computed(one.case), one.device_name


def _is_refused(one: MeasuredCase, worse: Mapping[tuple[str, str], Statement]) -> bool:
    if worse and any(str(one.case.configuration.get(axis)) == value for axis, value in worse):
        return True
    held = one.device.memory_bytes if one.device is not None else None
    return bool(held) and max(memory_of(one), default=0.0) > SAFE_SHARE * (held or 0.0)
