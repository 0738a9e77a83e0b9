"""Which device for a family of models: each at the best of its own settings, over the models that all of them ran."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.advice.choices import AS_FAST
from torchstone.analysis.recommend.candidates import (
    TRIALS,
    Criterion,
    Doubted,
    Offer,
    RankedOffer,
    Vary,
    best_among,
    count_with_few_trials,
    device_and_settings,
    doubted,
    entered,
    given,
    lead_of,
    narrow_enough,
    near_the_top,
    other_differences,
    run_command,
    spreads,
    valid,
    what_is_computed,
)
from torchstone.core.schema.advice import Statement, unique
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import portable
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.best_of_many import WITH_THE_BEST, best_of
from torchstone.core.stats.comparing import VariancePart, difference
from torchstone.storage.measured import MeasuredCase


class ModelCandidates(msgspec.Struct, frozen=True):
    """Of one model: all that ran, what may be recommended, and what can be judged. `why_not`: why the others cannot."""

    ran: Sequence[RankedOffer]
    allowed: Sequence[RankedOffer]
    judged: Sequence[RankedOffer]
    why_not: Sequence[Statement]


class Undecided(msgspec.Struct, frozen=True):
    """Of the model that most devices ran: those devices, those that can be judged, and what stands in the way."""

    ran: tuple[str, ...]
    judged: tuple[str, ...]
    left_out: tuple[Statement, ...]
    doubts: tuple[Doubted, ...]
    to_type: str | None


def undecided_hardware(tried: Sequence[ModelCandidates], learned: Callable[[MeasuredCase], Vary]) -> Undecided:
    """Return it. `tried`: one a model, each with an entrant that ran; of equals the last speaks.

    `learned`: the learning rate to type, where losses say which.
    """
    one = max(reversed(tried), key=lambda one: (len(_devices(one.ran)), len(one.judged) > 0))
    ran, judged = _devices(one.ran), _devices(one.judged)
    alone = len(ran) < 2
    return Undecided(
        ran,
        judged,
        (*one.why_not, *_not_allowed(one)),
        tuple(doubted(one.ran)),
        _elsewhere(one, learned) if alone else _more_trials(one, judged, learned),
    )


def _devices(entrants: Sequence[RankedOffer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.offer.device for one in entrants))


def _not_allowed(one: ModelCandidates) -> Iterator[Statement]:
    if count := len(one.ran) - len(one.allowed):
        yield Statement("settings_refused", {"count": count, "of": len(one.ran)})


def _best(entrants: Sequence[RankedOffer]) -> RankedOffer:
    return max(entrants, key=lambda one: one.offer.value)


def _elsewhere(one: ModelCandidates, learned: Callable[[MeasuredCase], Vary]) -> str:
    """Return what to type on another machine, or for another device of this one."""
    newest = _best(one.judged or one.allowed or one.ran).readings[-1]
    return run_command(newest, learned(newest), device="auto")


def _more_trials(one: ModelCandidates, judged: Sequence[str], learned: Callable[[MeasuredCase], Vary]) -> str | None:
    """Return what to type for a device whose trials differ too much; None where that is not what is in the way."""
    among = [each for each in one.allowed if each.offer.device not in judged]
    if not among:
        return None
    best = _best(among)
    return run_command(best.readings[-1], learned(best.readings[-1]), trials=2 * max(TRIALS, len(best.logs)))


class OnModel(msgspec.Struct, frozen=True):
    """One model: the best of each device, the best first. `relative`: at equal settings, device → times the first's."""

    model: str
    data: str
    given: Mapping[str, Scalar]
    offers: tuple[Offer, ...]
    relative: tuple[Relative, ...]


class Relative(msgspec.Struct, frozen=True):
    """One Case that several devices ran with equal settings: the figure of each over that of the best."""

    point: Mapping[str, Scalar]
    unit: str
    values: Mapping[str, float]
    ratios: Mapping[str, float]


class DeviceRank(msgspec.Struct, frozen=True):
    """One device over all models: the geometric mean of its figures over that of the best device, with its interval."""

    device: str
    against_best: Estimate
    models: int
    trials: int
    runs: int
    could_be: bool
    price_per_hour: float | None = None


# Of one model: all that ran, what may be recommended, and among how many.
_Compared = tuple[Sequence[RankedOffer], Sequence[RankedOffer], int]


class Hardware(msgspec.Struct, frozen=True):
    """`recommended`: None where fewer than two devices can be compared; where several could be the best, the leanest.

    Where there is none, `ran` are the devices of the model that most of them ran, and `judged` those of them with a
    figure that is ground for a choice; `doubts` say what checks found in them.
    """

    family: str
    task: str
    by: str
    standings: tuple[DeviceRank, ...] = ()
    models: tuple[OnModel, ...] = ()
    recommended: str | None = None
    clear: bool = False
    lead: Estimate | None = None
    left_out: tuple[Statement, ...] = ()
    cautions: tuple[Statement, ...] = ()
    to_type: str | None = None
    ran: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    doubts: tuple[Doubted, ...] = ()


def hardware(
    readings: Sequence[MeasuredCase],
    by: Criterion,
    ran_of: Callable[[str, Sequence[MeasuredCase]], Sequence[RankedOffer]],
    refused: Callable[[MeasuredCase], bool],
    price: Callable[[str], float | None],
    learned: Callable[[MeasuredCase], Vary],
) -> Hardware | None:
    """Return the device to take for the readings of one family and task; None where none has the criterion's figure.

    `ran_of`: what is computed and its readings → their entrants. `refused`: settings that are not recommended anyway,
    of their losses or memory. `learned`: the learning rate to type, where losses say which.
    """
    groups: dict[str, list[MeasuredCase]] = {}
    for one in readings:
        groups.setdefault(what_is_computed(one.case), []).append(one)
    compared: list[_Compared] = []
    left_out: list[Statement] = []
    lonely: list[ModelCandidates] = []
    for what, group in groups.items():
        ran = ran_of(what, group)
        fit = [one for one in group if not refused(one)]
        allowed = ran if len(fit) == len(group) else entered(fit, by, device_and_settings)
        every = near_the_top(allowed) if by.name == "memory" else allowed
        sure, wide = narrow_enough(every)
        kept, doubtful = valid(sure)
        left_out += [*wide, *doubtful]
        if len({one.offer.device for one in kept}) > 1:
            compared.append((ran, kept, len(every)))
        elif ran:
            lonely.append(ModelCandidates(ran, allowed, kept, (*wide, *count_with_few_trials(sure))))
    family, task = family_of(readings[0]), str(readings[0].case.workload.task)
    if not compared:
        return _open(family, task, by, lonely, learned) if lonely else None
    best, standings = _over_models(compared, price)
    lean = [one for one in standings if one.could_be]
    cautions = unique(one for _, kept, _ in compared for one in (*other_differences(kept), *_settings_differ(kept)))
    models = tuple(_on_model(*one) for one in compared)
    return Hardware(
        family,
        task,
        by.name,
        tuple(standings),
        models,
        _leanest(lean, compared),
        len(lean) == 1,
        best,
        unique(left_out),
        cautions,
        _again(compared, lean, learned) if len(lean) > 1 else None,
    )


def family_of(one: MeasuredCase) -> str:
    """Return the family of a model; what belongs to none that is known is custom."""
    return one.case.workload.family or "custom"


def _over_models(
    compared: Sequence[_Compared], price: Callable[[str], float | None]
) -> tuple[Estimate | None, list[DeviceRank]]:
    """Return the lead and the standings over the models that all these devices ran: the most devices first.

    A device enters with the best of its settings, and pays for having had many: they all count as tried.
    """
    everywhere = set.intersection(*({one.offer.device for one in kept} for _, kept, _ in compared))
    used = list(compared)
    if len(everywhere) < 2:  # no two devices ran all models: the model that most devices ran speaks
        used = [max(compared, key=lambda one: len({e.offer.device for e in one[1]}))]
        everywhere = {one.offer.device for one in used[0][1]}
    devices = sorted(everywhere)
    parts: dict[str, list[tuple[VariancePart, RankedOffer]]] = {device: [] for device in devices}
    for _, kept, _ in used:
        known = spreads(kept)
        for device in devices:
            own = [(s, e) for s, e in zip(known, kept, strict=True) if e.offer.device == device]
            parts[device].append(max(own, key=lambda pair: pair[0].log))
    each = [_mean([spread for spread, _ in parts[device]]) for device in devices]
    best = best_of(each, tried=sum(tried for _, _, tried in used))
    first = each[best.best]
    found = [
        DeviceRank(
            device,
            _against(first, part, best.level),
            len(used),
            sum(e.offer.trials for _, e in parts[device]),
            len({run for _, e in parts[device] for run in e.offer.runs}),
            place in best.could_be,
            price(device),
        )
        for place, (device, part) in enumerate(zip(devices, each, strict=True))
    ]
    return lead_of(best, found[best.best].trials), sorted(found, key=lambda one: -one.against_best.value)


def _against(first: VariancePart, part: VariancePart, level: float) -> Estimate:
    """Return how many times the best one is."""
    value, low, high = (1.0, 1.0, 1.0) if part is first else difference(first, part).ratio(level)
    return Estimate(value, low, high, level, "ratio", WITH_THE_BEST, part.trials, part.trials)


def _mean(each: Sequence[VariancePart]) -> VariancePart:
    """Return the mean over models: the log of a geometric mean of rates."""
    n, errors = len(each), [one.error() for one in each]
    total, below = math.fsum(errors), math.fsum(e * e / one.df for e, one in zip(errors, each, strict=True))
    return VariancePart(
        fmean(one.log for one in each), total / n, n, total * total / below if below > 0.0 else math.inf
    )


def _on_model(ran: Sequence[RankedOffer], kept: Sequence[RankedOffer], tried: int) -> OnModel:
    case = ran[0].readings[0].case
    _, ranked = best_among(kept, tried)
    best: dict[str, Offer] = {}
    for one in ranked:
        best.setdefault(one.offer.device, one.offer)
    return OnModel(
        portable(case.workload.model),
        portable(case.workload.data),
        given(case.configuration),
        tuple(best.values()),
        tuple(_relative(ran)),
    )


def _relative(ran: Sequence[RankedOffer]) -> Iterator[Relative]:
    """Yield each Case that two devices ran with equal settings, whatever their best is."""
    alike: dict[str, dict[str, Offer]] = {}
    for one in ran:
        alike.setdefault(str(sorted(one.offer.point.items())), {})[one.offer.device] = one.offer
    for offers in alike.values():
        if len(offers) > 1:
            first = next(iter(offers.values()))
            top = max(offer.value for offer in offers.values())
            values = {device: offer.value for device, offer in offers.items()}
            yield Relative(first.point, first.unit, values, {d: value / top for d, value in values.items()})


def _settings_differ(kept: Sequence[RankedOffer]) -> Iterator[Statement]:
    """Yield the settings that are not the same at the best of each device."""
    best: dict[str, RankedOffer] = {}
    for one in sorted(kept, key=lambda one: one.offer.value):
        best[one.offer.device] = one
    points = {device: one.offer.point for device, one in best.items()}
    axes = dict.fromkeys(axis for point in points.values() for axis in point)
    unlike = [axis for axis in axes if len({str(point.get(axis)) for point in points.values()}) > 1]
    if unlike:
        each = {
            axis: tuple(Statement("value_on", {"value": point.get(axis), "device": d}) for d, point in points.items())
            for axis in unlike
        }
        settings = tuple(Statement("axis_values", {"axis": axis, "values": values}) for axis, values in each.items())
        yield Statement("best_settings_differ", {"settings": settings})


def _leanest(lean: Sequence[DeviceRank], compared: Sequence[_Compared]) -> str:
    """Return the cheapest, or the one with the least memory in use, of those that could be the best and are as good."""
    lean = [one for one in lean if one.against_best.value >= AS_FAST]
    if len(lean) > 1 and all(one.price_per_hour is not None for one in lean):
        return min(lean, key=lambda one: one.price_per_hour or math.inf).device
    held: dict[str, list[float]] = {}
    for _, kept, _ in compared:
        for one in kept:
            held.setdefault(one.offer.device, []).append(one.offer.memory_bytes or math.inf)
    return min(lean, key=lambda one: min(held[one.device])).device


def _open(
    family: str, task: str, by: Criterion, tried: Sequence[ModelCandidates], learned: Callable[[MeasuredCase], Vary]
) -> Hardware:
    told = undecided_hardware(tried, learned)
    return Hardware(
        family,
        task,
        by.name,
        left_out=told.left_out,
        to_type=told.to_type,
        ran=told.ran,
        judged=told.judged,
        doubts=told.doubts,
    )


def _again(
    compared: Sequence[_Compared],
    lean: Sequence[DeviceRank],
    learned: Callable[[MeasuredCase], Vary],
) -> str:
    """Return what to type on each of the machines of no significant difference, with the best settings of one."""
    devices = {one.device for one in lean}
    kept = [one for _, some, _ in compared for one in some if one.offer.device in devices]
    best = max(kept, key=lambda one: one.offer.value)
    newest = best.readings[-1]
    return run_command(newest, learned(newest), device="auto", trials=2 * max(len(one.logs) for one in kept))
