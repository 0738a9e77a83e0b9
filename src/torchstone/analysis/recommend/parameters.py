"""Settings for a model on a device: batch size, precision, optimizer and all else that was tried; the learning rate.

Of those not significantly different from the best and within 2 % of it, the leanest is recommended: noise that hides a
larger difference is no reason to give it up. What trains worse is left out, and what answers otherwise than eager mode
in fp32 and is not shown to be as good.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.choices import AS_FAST, NEAR_THE_TOP, SAFE_SHARE
from torchstone.analysis.advice.convergence import Convergence, LearningRates, Optimizers, convergence
from torchstone.analysis.advice.trainings import LOSS_AXES, read_curves
from torchstone.analysis.recommend.candidates import (
    TRIALS,
    Criterion,
    Offer,
    RankedOffer,
    Vary,
    best_among,
    given,
    lead_of,
    narrow_enough,
    near_the_top,
    once_a_case,
    other_differences,
    run_command,
    valid,
)
from torchstone.analysis.summary import summarize
from torchstone.core.schema.advice import Statement, Value, unique
from torchstone.core.schema.axis import AXES, Scalar, variant_name
from torchstone.core.schema.case import Case, Task, portable
from torchstone.core.schema.estimate import Estimate
from torchstone.core.stats.convergence import UNSTABLE, Sameness
from torchstone.storage.measured import MeasuredCase
from torchstone.storage.place import Place
from torchstone.storage.query import find

_MOST_RUNS = 2  # the newest that compare trainings of one model on one device
_NOT_SHOWN = "runtime_differs"  # the check that says of a Case that it is worse, or that nothing shows it is not
_MOST_BYTES = 64 * 2**20  # a larger record would make everybody wait: `show` reads it


class Losses(msgspec.Struct, frozen=True):
    """What the losses of one run say of trainings that differ in these axes alone, at one batch size.

    `worse`: (axis, value) → why it is not recommended; `judged`: all (axis, value) of which the losses say something.
    """

    run_id: str
    batch_size: Scalar
    horizon_items: float
    learning_rate: LearningRates | None
    worse: Mapping[tuple[str, str], Statement]
    judged: frozenset[tuple[str, str]]
    notes: tuple[Statement, ...]  # what these losses cannot say


def losses_of(place: Place, readings: Sequence[MeasuredCase], budget: list[int]) -> list[Losses]:
    """Return what the newest runs say that compared trainings of one model on one device.

    `readings`: of that model and device. `budget`: bytes of records that may still be read; what is read is taken off.
    """
    found = []
    for run_id in _comparing(readings)[:_MOST_RUNS]:
        entry = find(place, run_id)
        size = entry.path.stat().st_size
        if size > min(budget[0], _MOST_BYTES):
            continue
        budget[0] -= size
        summary = summarize(entry)
        ours = {one.case_id for one in readings}
        groups = convergence(summary, read_curves(summary))
        found += [_losses_of(run_id, one) for one in groups if ours & {training.case_id for training in one.trainings}]
    return found


def worse_of(losses: Sequence[Losses]) -> Mapping[tuple[str, str], Statement]:
    """Return (axis, value) → why it is not recommended, by all of these; where several tell, the first does."""
    return {key: why for one in reversed(losses) for key, why in one.worse.items()}


def _comparing(readings: Sequence[MeasuredCase]) -> list[str]:
    """Return the runs, newest first, that hold two Cases which differ in LOSS_AXES alone."""
    cases = {one.case_id: one.case for one in readings}
    alike = Counter(map(_all_but_learning, cases.values()))
    comparable = {case_id for case_id, case in cases.items() if alike[_all_but_learning(case)] > 1}
    seen: dict[tuple[str, str], set[str]] = {}
    for one in readings:
        if one.case_id in comparable:
            seen.setdefault((one.run_id, _all_but_learning(one.case)), set()).add(one.case_id)
    runs = dict.fromkeys(run_id for (run_id, _), cases in seen.items() if len(cases) > 1)
    return list(runs)[::-1]


@once_a_case
def _all_but_learning(case: Case) -> str:
    return str(sorted((name, value) for name, value in case.configuration.items() if name not in LOSS_AXES))


def _losses_of(run_id: str, one: Convergence) -> Losses:
    judged = set(_of_precisions(one)) | {
        ("optimizer", s.optimizer) for group in one.optimizers for s in group.standings
    }
    rates = max(one.learning_rates, key=lambda rates: len(rates.tried), default=None)
    worse = {
        **_worse_precisions(one),
        **{key: why for group in one.optimizers for key, why in _worse_optimizers(group)},
    }
    return Losses(run_id, one.batch_size, one.horizon_items, rates, worse, frozenset(judged), one.notes)


def _of_precisions(one: Convergence) -> Iterator[tuple[str, str]]:
    for effect in one.precisions:
        yield "precision", effect.against
        if effect.verdict != Sameness.UNCLEAR:
            yield "precision", effect.precision


def _worse_precisions(one: Convergence) -> Mapping[tuple[str, str], Statement]:
    found = {}
    for effect in one.precisions:
        if effect.verdict != Sameness.DIFFERENT:
            continue
        if effect.difference is None:
            found["precision", effect.precision] = Statement("precision_diverges", {"precision": effect.precision})
        elif effect.difference > 0.0:
            found["precision", effect.precision] = Statement(
                "precision_worse",
                {"precision": effect.precision, "difference": effect.difference, "against": effect.against},
            )
    return found


def _worse_optimizers(group: Optimizers) -> Iterator[tuple[tuple[str, str], Statement]]:
    best = group.standings[0]
    for one in group.standings[1:]:
        ends, least = one.loss_end, best.loss_end
        if one.behaviour in UNSTABLE:
            yield ("optimizer", one.optimizer), Statement("optimizer_unstable", {"optimizer": one.optimizer})
        elif ends is not None and least is not None and (ends.low or 0.0) > (least.high or math.inf):
            values: dict[str, Value] = {
                "optimizer": one.optimizer,
                "loss": ends.value,
                "best": best.optimizer,
                "least": least.value,
            }
            yield ("optimizer", one.optimizer), Statement("optimizer_worse", values)


_SLOWER_PER_ITEM = 0.8  # of the fastest fall of the loss: below it, the saying is worth a line
_SAME_MEMORY = 0.02  # of the log: what is closer takes as much
_BATCHES = 4  # times the largest that was tried, where it is the best


class Learning(msgspec.Struct, frozen=True):
    """The learning rate, by the losses of one run at one batch size; None where none is steady or falls."""

    best: float | None
    as_good: tuple[float, ...]
    cannot_tell: tuple[float, ...]
    tried: tuple[float, ...]
    unsteady: tuple[float, ...]
    try_next: float | None
    run_id: str
    batch_size: Scalar
    horizon_items: float


class Settings(msgspec.Struct, frozen=True):
    """What to set for one workload on one device. `given`: what is computed; `offers`: the best first.

    `recommended`: None where fewer than two settings were measured. `clear`: no other could be the best; else it is
    the leanest of those that could and are as good. `to_type`: what would settle what is open.
    """

    task: str
    model: str
    family: str | None
    data: str
    device: str
    by: str
    given: Mapping[str, Scalar]
    offers: tuple[Offer, ...]
    recommended: Offer | None
    clear: bool
    lead: Estimate | None
    learning: Learning | None
    left_out: tuple[Statement, ...]
    cautions: tuple[Statement, ...]
    to_type: str | None


def recommended_settings(
    readings: Sequence[MeasuredCase], every: Sequence[RankedOffer], by: Criterion, losses: Sequence[Losses]
) -> Settings | None:
    """Return what to set, by the readings of one workload on one device; None where the criterion has no figure.

    `every`: their entrants; `losses`: what stored losses say of its trainings.
    """
    if not every:
        return None
    near = near_the_top(every) if by.name == "memory" else every
    first = readings[0].case.workload
    worse, unproven = worse_of(losses), not_as_good(readings)
    left = [one for one in near if not _why_not(one, worse, unproven)]
    sure, wide = narrow_enough(left or near)
    sound, doubtful = valid(sure or left or near)
    sound = sound if sure else []  # where all trials differ too much
    kept = sound or sure or left or near  # of doubtful ones alone the table is shown, and nothing recommended
    best, ranked = best_among(kept, len(every))
    proven = [one for one in ranked if not _is_unproven(one, unproven)]
    as_fast = [one for one in proven if one.offer.could_be and one.offer.value >= AS_FAST * ranked[0].offer.value]
    choosable = as_fast and sound and len(every) > 1 and (len(kept) > 1 or not wide)
    pick = min(as_fast, key=_leanness) if choosable else None
    axes = [axis for axis in every[0].offer.point if len({str(one.offer.point.get(axis)) for one in every}) > 1]
    refused = _refusals(every, worse, unproven)
    learning = _learning(losses, pick)
    rate: Vary = {"learning_rate": [learning.best]} if learning is not None and learning.best is not None else {}
    chosen = pick is not None or (sound and not wide)
    return Settings(
        task=str(first.task),
        model=portable(first.model),
        family=first.family,
        data=portable(first.data),
        device=every[0].offer.device,
        by=by.name,
        given=given(readings[0].case.configuration),
        offers=tuple(_shown(one.offer, axes) for one in ranked),
        recommended=_shown(pick.offer, axes) if pick is not None else None,
        clear=best.is_clear and pick is not None,
        lead=lead_of(best, kept[best.best].offer.trials) if sound else None,
        learning=learning,
        left_out=(
            *(refused if left or not proven else ()),
            *(wide if sure else ()),
            *doubtful,
            *_far(len(every) - len(near)),
        ),
        cautions=(
            *(() if left or not proven else map(_nothing_else, refused)),
            *_cautions(ranked, pick, losses, first.task),
        ),
        to_type=_to_type(readings, ranked, pick, losses, rate) if chosen else _again(left or near, rate),
    )


def not_as_good(readings: Sequence[MeasuredCase]) -> frozenset[str]:
    """Return the Cases that no run showed to be as good as eager mode in fp32; none where all compute in one format."""
    if len({variant_name(one.case.configuration) for one in readings}) == 1:
        return frozenset()  # it was not for choice
    shown = {one.case_id for one in readings if not any(found.check == _NOT_SHOWN for found in one.findings)}
    return frozenset(one.case_id for one in readings) - shown


def _why_not(
    one: RankedOffer, worse: Mapping[tuple[str, str], Statement], unproven: Collection[str]
) -> Statement | None:
    share = one.offer.memory_share
    if share is not None and share > SAFE_SHARE:
        return Statement("memory_nearly_full", {"share": SAFE_SHARE})
    if _is_unproven(one, unproven):
        price: Mapping[str, Value] = {"rate": one.offer.value, "unit": one.offer.unit}
        return Statement("quality_not_shown", {"variant": variant_name(one.first.case.configuration), **price})
    return next((why for (axis, value), why in worse.items() if str(one.offer.point.get(axis)) == value), None)


def _is_unproven(one: RankedOffer, unproven: Collection[str]) -> bool:
    return all(case_id in unproven for case_id in one.offer.case_ids)


def _refusals(
    every: Sequence[RankedOffer], worse: Mapping[tuple[str, str], Statement], unproven: Collection[str]
) -> Sequence[Statement]:
    """Return why settings are left out, each reason once; a format not shown to be as good tells its fastest."""
    found: dict[str, Statement] = {}
    for one in sorted(every, key=lambda one: -one.offer.value):
        if (why := _why_not(one, worse, unproven)) is not None:
            found.setdefault(str(why.values.get("variant") or why), why)
    return tuple(found.values())


def _nothing_else(why: Statement) -> Statement:
    return Statement("only_setting", {"why": (why,)})


def _far(count: int) -> Iterator[Statement]:
    if count:
        yield Statement("far_from_top", {"count": count, "share": round(1 - NEAR_THE_TOP, 4)})


def _leanness(one: RankedOffer) -> tuple[float, float]:
    """Sort by memory, in steps of 2 %, then by the value; a memory that is not known is not the least."""
    held = one.offer.memory_bytes
    return round(math.log(held) / _SAME_MEMORY) if held else math.inf, -one.offer.value


def _shown(offer: Offer, axes: Sequence[str]) -> Offer:
    """Return an offer that names the axes in which offers differ, and what people look for."""
    named = dict.fromkeys((*axes, *(n for n in ("batch_size", "precision") if n in offer.point)))
    return msgspec.structs.replace(offer, point={axis: offer.point.get(axis) for axis in named})


def _learning(losses: Sequence[Losses], pick: RankedOffer | None) -> Learning | None:
    having = [one for one in losses if one.learning_rate is not None]
    size = pick.offer.point.get("batch_size") if pick is not None else None
    best = next((one for one in having if one.batch_size == size), having[0] if having else None)
    if best is None or best.learning_rate is None:
        return None
    rates = best.learning_rate
    if rates.best is None and rates.more_steps is not None:
        return None  # too few steps to tell: no rate is better or worse
    return Learning(
        rates.best,
        rates.as_good,
        rates.cannot_tell,
        rates.tried,
        rates.unsteady,
        rates.try_next,
        best.run_id,
        best.batch_size,
        best.horizon_items,
    )


def _cautions(
    ranked: Sequence[RankedOffer], pick: RankedOffer | None, losses: Sequence[Losses], task: Task
) -> Iterator[Statement]:
    yield from other_differences(ranked)
    if pick is None:
        return
    for axis, value in _unjudged(ranked, pick, losses):
        unknown = "loss_not_compared" if task == Task.TRAIN else "effect_not_measured"
        yield Statement(unknown, {"axis": axis, "value": value})
    yield from unique(note for one in losses for note in one.notes)
    rates = {one.offer.point.get("batch_size"): one.offer.loss_rate_per_1000_items for one in ranked}
    falls = {size: rate for size, rate in rates.items() if rate is not None and rate < 0.0}
    own = falls.get(pick.offer.point.get("batch_size"))
    steepest = min(falls, key=lambda size: falls[size], default=None)
    if own is not None and steepest is not None and own > _SLOWER_PER_ITEM * falls[steepest]:
        yield Statement("loss_falls_slower", {"share": own / falls[steepest], "batch_size": steepest})


def _unjudged(ranked: Sequence[RankedOffer], pick: RankedOffer, losses: Sequence[Losses]) -> Iterator[tuple[str, str]]:
    """Yield the choices of which no stored loss says whether they train (or answer) as well as the others."""
    judged = {key for one in losses for key in one.judged}
    for axis in ("precision", "optimizer"):
        value = str(pick.offer.point.get(axis))
        if len({str(one.offer.point.get(axis)) for one in ranked}) > 1 and (axis, value) not in judged:
            yield axis, value


def _again(entrants: Sequence[RankedOffer], rate: Vary) -> str | None:
    """Return the command that measures these settings again, with more trials. `rate`: of learning, where known."""
    vary = {
        axis: values
        for axis in entrants[0].offer.point
        if len(values := list(dict.fromkeys(one.offer.point.get(axis) for one in entrants))) > 1
    }
    trials = max(10, 2 * max(len(one.logs) for one in entrants))
    return run_command(entrants[-1].readings[-1], {**rate, **vary}, trials=trials)


def _to_type(
    readings: Sequence[MeasuredCase],
    ranked: Sequence[RankedOffer],
    pick: RankedOffer | None,
    losses: Sequence[Losses],
    rate: Vary,
) -> str | None:
    """Return the command that would settle what is open first: one setting alone, a tie of few trials, the losses.

    Then a larger batch, where the largest is the best.
    """
    newest = readings[-1]
    if pick is None:
        size = newest.case.configuration.get("batch_size")
        start = size if isinstance(size, int) else 1
        return run_command(newest, {**rate, "batch_size": [start, 4 * start, 16 * start]})
    source = pick.readings[-1]
    could_be = [one for one in ranked if one.offer.could_be]
    if len(could_be) > 1 and any(one.offer.doubts or len(one.logs) < TRIALS for one in could_be):
        vary = {
            axis: values
            for axis in pick.offer.point
            if len(values := list(dict.fromkeys(one.offer.point.get(axis) for one in could_be))) > 1
        }
        return run_command(source, {**rate, **vary}, trials=max(TRIALS, 2 * max(len(one.logs) for one in could_be)))
    if source.case.workload.task == Task.TRAIN and (of_losses := _to_learn(source, ranked, pick, losses)):
        return run_command(source, {**rate, **of_losses, "feed": ["loader"]}, trials=1)
    sizes = {size for one in ranked if isinstance(size := one.offer.point.get("batch_size"), int)}
    top = pick.offer.point.get("batch_size")
    if isinstance(top, int) and len(sizes) > 1 and top == max(sizes):
        return run_command(source, {**rate, "batch_size": [top, _BATCHES * top]})
    return None


def _to_learn(
    source: MeasuredCase, ranked: Sequence[RankedOffer], pick: RankedOffer, losses: Sequence[Losses]
) -> Mapping[str, Sequence[Scalar]]:
    """Return the axes whose effect on the loss is not known; none where the data has nothing to learn."""
    if source.case.workload.data.partition(":")[0] == "synthetic":
        return {}
    vary: dict[str, Sequence[Scalar]] = {
        axis: list(dict.fromkeys(one.offer.point.get(axis) for one in ranked))
        for axis, _ in _unjudged(ranked, pick, losses)
    }
    rate = source.case.configuration.get("learning_rate", AXES["learning_rate"].default)
    if not any(one.learning_rate for one in losses) and isinstance(rate, float) and rate > 0.0:
        vary["learning_rate"] = [rate / 10, rate, 10 * rate]
    return vary
