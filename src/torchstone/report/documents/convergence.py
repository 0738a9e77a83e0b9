"""What the losses of a run say: a table of the trainings, the best learning rate, optimizers, mixed precision."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from torchstone.analysis.advice.convergence import Convergence, LearningRates, OptimizerResult, convergence
from torchstone.analysis.advice.devices import PrecisionEffect
from torchstone.analysis.advice.trainings import Curves, Span, TrainingSummary, read_curves
from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.convergence import FEWEST, MARGIN, Behaviour, Sameness
from torchstone.report.document import Column, Part, Role, Section, Table, Text

_MOST = 3  # groups of trainings that are shown at once
_MOST_OF_EVERY = 12  # and below one title the others, or 168 of them are the contents of a page
_STEEP = 50.0  # as a rise of ln(loss): more digits would say no more
_WORDS = {
    Behaviour.FALLING: "falls",
    Behaviour.FLAT: "no fall seen",
    Behaviour.RISING: "rises",
    Behaviour.DIVERGED: "DIVERGED",
    Behaviour.NOT_FINITE: "NaN",
    Behaviour.SHORT: "too few steps",
}


def convergence_parts(run: RunSummary, *, every: bool = False, curves: Curves | None = None) -> Iterator[Section]:
    """Yield each group of trainings that differ in learning rate, optimizer, accumulation or precision alone.

    `curves`: the losses, where the record has been read already.
    """
    groups = convergence(run, read_curves(run) if curves is None else curves)
    same = [note for note in groups[0].notes if all(note in one.notes for one in groups)] if groups else []
    is_crowd = len(groups) > _MOST_OF_EVERY
    most = _MOST_OF_EVERY if every else _MOST
    if is_crowd and same:
        yield Section("convergence: of all groups", tuple(Text(note, Role.NOTE) for note in same))
    yield from (_section(one, same if is_crowd else ()) for one in groups[:most])
    if rest := groups[most:]:
        title = f"{len(rest)} more group{'s' * (len(rest) > 1)} of trainings"
        parts = tuple(_together(rest, same)) if is_crowd else tuple(_section(one, ()) for one in rest)
        yield Section(title, parts, folded=True, how=f"torchstone show {run.run_id} --full")


def _section(group: Convergence, told: Sequence[str]) -> Section:
    """Return what is told of one group, without the notes that were `told` of all."""
    where = "".join(f", {axis} {value}" for axis, value in _settings(group).items())
    title = f"convergence: {group.model} on {group.device}, data {group.data}{where}"
    return Section(title, tuple(_parts(group, told)))


def _settings(group: Convergence) -> Mapping[str, Scalar]:
    """Return what tells a group from the others of its model and device."""
    return {**({} if group.batch_size is None else {"batch_size": group.batch_size}), **group.where}


def _is_short(group: Convergence) -> bool:
    return all(one.behaviour == Behaviour.SHORT and one.steps < FEWEST for one in group.trainings)


def _parts(group: Convergence, told: Sequence[str]) -> Iterator[Part]:
    if _is_short(group):
        yield from map(Text, _precisions(group))
        few = f"under {FEWEST} steps a training there is nothing to see in their losses"
        yield Text(few, Role.NOTE)
        return
    over = f"over the first {_count(group.horizon_items)} {group.item}s, which each of them saw"
    yield Text(f"{over}; ± and [ ] are 95 % confidence intervals over the steps of one training", Role.DETAIL)
    yield Table(tuple(_columns(group)))
    yield from map(Text, _lines(group))
    yield from (Text(note, Role.NOTE) for note in group.notes if note not in told)


def _columns(group: Convergence) -> list[Column]:
    each = group.trainings
    found = [Column(axis.replace("_", " "), tuple(str(one.point[axis]) for one in each)) for axis in each[0].point]
    _add_losses(found, each, group.item)
    if group.target_loss is not None:
        target = units.significant(group.target_loss, 3)
        found += [
            Column(f"{group.item}s to loss {target}", tuple(_count(one.items_to_target) for one in each), 5),
            Column(f"time to loss {target}", tuple(units.quantity(one.time_to_target_s, "s") for one in each), 5),
        ]
    found.append(Column("loss", tuple(map(_did, each)), left=True))
    return found


def _add_losses(found: list[Column], each: Sequence[TrainingSummary], item: str, end_rank: int = 1) -> None:
    found += [
        Column("loss start", tuple(units.significant(one.loss_start, 3) for one in each), 3),
        Column("loss end", tuple(_value(one.loss_end) for one in each), end_rank),
    ]
    found.append(Column("±", tuple(_around(one.loss_end) for one in each), end_rank, of=len(found) - 1))
    rates = [_percent(None if one.broke else one.rate_per_1000_items) for one in each]
    found.append(Column(f"per 1,000 {item}s", tuple(value for value, _ in rates), 2))
    found.append(Column("[ ]", tuple(interval for _, interval in rates), 4, of=len(found) - 1))


def _value(span: Span | None) -> str:
    return units.significant(span.value, 3) if span is not None else units.MISSING


def _around(span: Span | None) -> str:
    return units.spread(span.value, span.low, span.high) if span is not None else ""


def _percent(rate: Span | None) -> tuple[str, str]:
    """Return by how much the loss changes over 1,000 items, in percent, and the ends of its interval.

    None where the interval holds both a fall and a rise: of few steps it reaches from -100 % to any number.
    """
    if rate is None or rate.low is None or rate.high is None or rate.low < 0.0 < rate.high:
        return units.MISSING, ""
    value, low, high = (f"{100 * math.expm1(min(slope, _STEEP)):+.3g}" for slope in (rate.value, rate.low, rate.high))
    return f"{value} %", f"[{low}, {high}]"


def _did(one: TrainingSummary) -> str:
    several = f", {one.spikes} spike{'s' * (one.spikes > 1)}" if one.spikes else ""
    return _WORDS[one.behaviour] + several


def _count(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:,.0f}"


# ── very many groups ────────────────────────────────────────────────────────────────────────────────────────


def _together(groups: Sequence[Convergence], told: Sequence[str]) -> Iterator[Part]:
    """Yield for each model on each device one table of its trainings, and one of what follows of each group.

    A group with too few steps has none: it is a section as where there are few groups.
    """
    works: dict[tuple[str, str, str, str], list[Convergence]] = {}
    for group in groups:
        if not _is_short(group):
            works.setdefault((group.model, group.device, group.data, group.item), []).append(group)
    for (model, device, data, item), alike in works.items():
        over = f"each group over its first {item}s, which all of its trainings saw"
        notes = dict.fromkeys(note for group in alike for note in group.notes if note not in told)
        parts: tuple[Part, ...] = (
            Text(f"{over}; ± and [ ] are 95 % confidence intervals over the steps of one training", Role.DETAIL),
            Table(tuple(_all_trainings(alike, item))),
            *_all_lines(alike),
            *(Text(note, Role.NOTE) for note in notes),
        )
        yield Section(f"convergence: {model} on {device}, data {data}", parts)
    yield from (_section(group, told) for group in groups if _is_short(group))


def _all_trainings(groups: Sequence[Convergence], item: str) -> list[Column]:
    rows = [(group, one) for group in groups for one in group.trainings]
    points = [{**_settings(group), **one.point} for group, one in rows]
    found = _of_settings(points)
    found.append(Column(f"first {item}s", tuple(_count(group.horizon_items) for group, _ in rows), 3))
    _add_losses(found, [one for _, one in rows], item, end_rank=0)  # settings alone would fill a phone
    if any(group.target_loss is not None for group in groups):
        targets = ["" if group.target_loss is None else units.significant(group.target_loss, 3) for group, _ in rows]
        found += [
            Column("target loss", tuple(targets), 5),
            Column(f"{item}s to target", tuple(_count(one.items_to_target) for _, one in rows), 5),
            Column("time to target", tuple(units.quantity(one.time_to_target_s, "s") for _, one in rows), 5),
        ]
    return [*found, Column("loss", tuple(_did(one) for _, one in rows), left=True)]


def _of_settings(points: Sequence[Mapping[str, Scalar]]) -> list[Column]:
    names = dict.fromkeys(name for point in points for name in point)
    return [Column(name.replace("_", " "), tuple(str(point.get(name, "")) for point in points)) for name in names]


def _all_lines(groups: Sequence[Convergence]) -> Iterator[Table]:
    rows = [(_settings(group), line) for group in groups for line in _lines(group)]
    if rows:
        yield Table(
            (*_of_settings([point for point, _ in rows]), Column("", tuple(line for _, line in rows), left=True))
        )


# ── what follows ────────────────────────────────────────────────────────────────────────────────────────────


def _lines(group: Convergence) -> Iterator[str]:
    for rates in group.learning_rates:
        yield f"learning rate{_where(rates.where)}: {_best(rates, group.item, group.horizon_items)}"
    for found in group.optimizers:
        how = "each at its best learning rate here" if found.tuned else "at one learning rate, which is none's best"
        yield f"optimizer{_where(found.where)}, {how}: {'; '.join(_standing(s, group.item) for s in found.standings)}"
    yield from _precisions(group)


def _precisions(group: Convergence) -> Iterator[str]:
    for effect in group.precisions:
        yield f"precision {effect.precision} against {effect.against}{_where(effect.where)}: {_effect(effect)}"


def _where(point: Mapping[str, Scalar]) -> str:
    return f" with {', '.join(f'{axis} {value}' for axis, value in point.items())}" if point else ""


def _best(rates: LearningRates, item: str, horizon: float) -> str:
    told = [f"with {_listed(rates.unsteady)} the loss rises or breaks down"] if rates.unsteady else []
    if rates.best is None:
        if len(rates.unsteady) == len(rates.tried):
            return f"no steady one; {told[0]}: try {min(rates.tried) / 10:g}, or --axis grad_clip=1"
        if rates.more_steps is not None:
            few = f"too few steps to tell whether the loss falls with {_listed(rates.tried)}"
            return "; ".join([f"{few}: try --iterations {rates.more_steps}", *told])
        seen = f"none of {_listed(rates.tried)} lowers the loss beyond its noise in {_count(horizon)} {item}s"
        other = "one in between" if rates.unsteady else f"{10 * max(rates.tried):g}"
        return "; ".join([seen, *told, f"try {other}, another optimizer, or more steps"])
    beyond = rates.try_next
    last = [f"the best is at the edge of the range: also try {beyond:.3g}"] if beyond is not None else []
    return "; ".join([*_beside(rates, rates.best), *told, *last])


def _beside(rates: LearningRates, best: float) -> Iterator[str]:
    """Yield the best, what is as good, and what is not known to be: what is not known is not called equal."""
    same = f", as good as it within {100 * MARGIN:g} %: {_listed(rates.as_good)}" if rates.as_good else ""
    if rates.cannot_tell:
        yield f"{best:g} ended lowest{same}"
        why = f": too few steps, try --iterations {rates.more_steps}" if rates.more_steps is not None else ""
        yield f"cannot tell whether {_listed(rates.cannot_tell)} would do as well{why}"
    elif len(rates.tried) - len(rates.unsteady) < 2:
        yield f"{best:g} is best, the only one that is steady"
    else:
        yield f"{best:g} is best{same or ', the lowest loss beyond the noise'}"


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def _standing(one: OptimizerResult, item: str) -> str:
    rate = f" (learning_rate {one.learning_rate})" if one.learning_rate is not None else ""
    end = f"loss {_value(one.loss_end)} {_around(one.loss_end)}".rstrip()
    loss = end if one.behaviour in (Behaviour.FALLING, Behaviour.FLAT) else f"loss {_WORDS[one.behaviour]}"
    speed = units.quantity(one.throughput, f"{item}s/s") if one.throughput is not None else "no throughput"
    return f"{one.optimizer}{rate} {speed}, {units.quantity(one.memory_bytes, 'bytes')}, {loss}"


def _effect(effect: PrecisionEffect) -> str:
    speed = effect.speed_ratio
    times = units.ratio(speed.value, speed.low, speed.high) if speed is not None else units.MISSING
    told = ["throughputs not compared" if times == units.MISSING else f"{times} times the throughput"]
    if effect.memory_ratio is not None:
        told.append(f"{effect.memory_ratio:.2f} times the memory")
    return ", ".join([*told, _same(effect)])


def _same(effect: PrecisionEffect) -> str:
    margin = f"within {100 * effect.margin:g} %"
    if effect.difference is None or effect.low is None or effect.high is None:
        broke = effect.verdict == Sameness.DIFFERENT
        return "the loss breaks down" if broke else "too few steps to tell whether the loss is the same"
    by = f"{100 * effect.difference:+.2g} % [{100 * effect.low:+.2g}, {100 * effect.high:+.2g}]"
    words = {
        Sameness.EQUIVALENT: f"loss the same {margin}: {by}",
        Sameness.DIFFERENT: f"loss different: {by}, not {margin}",
        Sameness.UNCLEAR: f"unclear whether the loss is the same {margin}: {by}",
    }
    return f"{words[effect.verdict]}, over {effect.units} {effect.unit}"
