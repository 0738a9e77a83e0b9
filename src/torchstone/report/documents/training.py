"""A training that has ended as a Document: what it reached, its epochs, what it took beside what was predicted."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torchstone.analysis.advice.convergence import Convergence, LearningRates, OptimizerResult, convergence
from torchstone.analysis.advice.devices import PrecisionEffect
from torchstone.analysis.advice.trainings import Curves, Span, read_curves
from torchstone.analysis.advice.trainings import TrainingSummary as Trained
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.advice import Statement, unique
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.metric import RAW
from torchstone.core.schema.training import Epoch, EpochMetrics, Training, TrainingMetrics
from torchstone.core.stats.convergence import FEWEST, MARGIN, Behaviour, Sameness
from torchstone.core.stats.interval import wilson
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import Chart, Column, CommandLine, Document, Fields, Part, Role, Section, Table, Text
from torchstone.report.documents.feed import data_words, fed_words, feed_facts
from torchstone.report.documents.run_answer import rate_of

if TYPE_CHECKING:
    from torchstone.workflows.train.evaluation import TestMetrics, TestResults

_BEGUN = {
    "random": " from random weights",
    "pretrained": " from pretrained weights",
    "folder": " from the folder's weights",
    "file": " from the file's weights",
}
_SHOWN = 20  # epochs in the table: of more, the first, the last and the best
_FIRST, _LAST = 5, 10


def training_parts(run: RunSummary, training: Training) -> Iterator[Part]:
    """Yield what a training came to."""
    (case,), metrics = run.cases, training.metrics
    yield Text(_answer(case, metrics), Role.HEADLINE)
    data = data_words(case.workload, feed_facts(case))
    yield Text(", ".join((f"{case.workload.model} on {case.placement}", f"data {data}", *fed_words([case]))))
    if metrics is None:
        return
    if metrics.epochs:
        yield Table(tuple(_columns(metrics)))
        if metrics.best_epoch:
            yield Text(f"best epoch: {metrics.best_epoch}, by {_judged_by(metrics.epochs[0])}")
    yield Fields((*_ended(metrics), *_time(metrics, training.epoch), ("folder", training.folder)))
    if metrics.final_val_accuracy is not None:
        yield Text("evaluate it:")
        yield CommandLine(f"torchstone evaluate {shlex.quote(training.folder)}")


def _answer(case: CaseSummary, metrics: TrainingMetrics | None) -> str:
    """Return in one or two sentences what the training reached."""
    if metrics is None or not metrics.epochs:
        return f"Not trained: {case.trials[-1].outcome.message if case.trials else 'no trial was taken'}"
    best = next((e for e in metrics.epochs if e.epoch == metrics.best_epoch), metrics.epochs[-1])
    count, held_out = len(metrics.epochs), best.val_loss is not None
    reached = [f"loss {units.significant(best.val_loss if best.val_loss is not None else best.train_loss, 4)}"]
    if best.val_accuracy is not None:
        reached.insert(0, f"accuracy {_share(best.val_accuracy)}")
    begun = _BEGUN.get(str(case.workload.fixed.get("weights")), "")
    measured = rate_of(case)  # which every other page has: of the whole training, not of its best epoch
    rate = f"{units.significant(measured.value if measured else best.throughput, 3)} {metrics.item}s/s"
    text = f"Trained {count} epoch{'s' * (count > 1)}{begun} in {_whole_time(metrics)}: "
    text += f"{'held-out ' * held_out}{', '.join(reached)} (epoch {best.epoch}), {rate}; one training: no interval."
    return text if metrics.outcome == "ok" else f"{text} It ended {metrics.outcome}: {metrics.message}."


def _columns(metrics: TrainingMetrics) -> Iterator[Column]:
    epochs = _shown(metrics)
    best = metrics.best_epoch
    yield Column("epoch", tuple(str(e.epoch) for e in epochs))
    yield Column("best", tuple("*" if e.epoch == best else "" for e in epochs), 1)
    yield Column("learning rate", tuple(units.significant(e.learning_rate, 3) for e in epochs), 3)
    yield Column("loss", tuple(units.significant(e.train_loss, 4) for e in epochs))
    yield Column("accuracy", tuple(_share(e.train_accuracy) for e in epochs), 1)
    yield Column("held-out loss", tuple(_number(e.val_loss) for e in epochs), 1)
    yield Column("held-out accuracy", tuple(_share(e.val_accuracy) for e in epochs), 1)
    yield Column("time", tuple(units.quantity(e.train_time_s, "s") for e in epochs), 2)
    yield Column(f"{metrics.item}s/s", tuple(units.significant(e.throughput, 3) for e in epochs), 2)


def _shown(metrics: TrainingMetrics) -> Sequence[EpochMetrics]:
    epochs = metrics.epochs
    if len(epochs) <= _SHOWN:
        return epochs
    kept = {e.epoch for e in (*epochs[:_FIRST], *epochs[-_LAST:])} | {metrics.best_epoch}
    return [e for e in epochs if e.epoch in kept]


def _judged_by(epoch: EpochMetrics) -> str:
    if epoch.val_loss is None:
        return "loss"
    return "held-out accuracy" if epoch.val_accuracy is not None else "held-out loss"


def _ended(metrics: TrainingMetrics) -> Iterator[tuple[str, str]]:
    if metrics.outcome != "ok":
        yield "ended", f"{metrics.outcome}: {metrics.message}"
    if metrics.stopped_early is not None:
        yield "ended", f"after {len(metrics.epochs)} epochs: no improvement for {metrics.stopped_early} epochs"


def _time(metrics: TrainingMetrics, epoch: Epoch | None) -> Iterator[tuple[str, str]]:
    a_training = units.quantity(metrics.avg_epoch_time_s, "s")
    yield "took", f"{_whole_time(metrics)} in all, {a_training} of training an epoch"
    if epoch is None:
        return
    told = epoch.predicted
    if told is None or epoch.ratio is None:
        yield "predicted", "by no stored tune or run of these settings"
        return
    expected = told.epoch_s
    ends = units.interval(expected.value, expected.low, expected.high, "s")
    between = f" [{ends}]" if ends else ""
    of, each = (f" of {told.items:,} items", "item for item and ") if told.items else ("", "")
    said = f"{units.quantity(expected.value, 's')}{between} an epoch{of} by {told.by} {told.run_id}"
    yield "predicted", f"{said}; {each}without the first step it took {epoch.ratio:.3f} times that"


def _whole_time(metrics: TrainingMetrics) -> str:
    return units.quantity(metrics.total_runtime_minutes * 60.0, "s")


def _share(value: float | None) -> str:
    return units.quantity(value, "ratio")


def _number(value: float | None) -> str:
    return units.MISSING if value is None else units.significant(value, 4)


# ── convergence ─────────────────────────────────────────────────────────────────────────────────────────────


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
        yield Section("convergence: of all groups", tuple(Text(text(note), Role.NOTE) for note in same))
    yield from (_section(one, same if is_crowd else ()) for one in groups[:most])
    if rest := groups[most:]:
        title = f"{len(rest)} more group{'s' * (len(rest) > 1)} of trainings"
        parts = tuple(_together(rest, same)) if is_crowd else tuple(_section(one, ()) for one in rest)
        yield Section(title, parts, folded=True, how=f"torchstone show {run.run_id} --full")


def _section(group: Convergence, told: Sequence[Statement]) -> Section:
    """Return what is told of one group, without the notes that were `told` of all."""
    where = "".join(f", {axis} {value}" for axis, value in _settings(group).items())
    title = f"convergence: {group.model} on {group.device}, data {group.data}{where}"
    return Section(title, tuple(_parts(group, told)))


def _settings(group: Convergence) -> Mapping[str, Scalar]:
    """Return what tells a group from the others of its model and device."""
    return {**({} if group.batch_size is None else {"batch_size": group.batch_size}), **group.where}


def _is_short(group: Convergence) -> bool:
    return all(one.behaviour == Behaviour.SHORT and one.steps < FEWEST for one in group.trainings)


def _parts(group: Convergence, told: Sequence[Statement]) -> Iterator[Part]:
    if _is_short(group):
        yield from map(Text, _precisions(group))
        few = f"under {FEWEST} steps a training there is nothing to see in their losses"
        yield Text(few, Role.NOTE)
        return
    over = f"over the first {_count(group.horizon_items)} {group.item}s, which each of them saw"
    yield Text(f"{over}; ± and [ ] are 95 % confidence intervals over the steps of one training", Role.DETAIL)
    yield Table(tuple(_rate_columns(group)))
    yield from map(Text, _lines(group))
    yield from (Text(text(note), Role.NOTE) for note in group.notes if note not in told)


def _rate_columns(group: Convergence) -> list[Column]:
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


def _add_losses(found: list[Column], each: Sequence[Trained], item: str, end_rank: int = 1) -> None:
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


def _did(one: Trained) -> str:
    several = f", {one.spikes} spike{'s' * (one.spikes > 1)}" if one.spikes else ""
    return _WORDS[one.behaviour] + several


def _count(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:,.0f}"


# ── very many groups ────────────────────────────────────────────────────────────────────────────────────────


def _together(groups: Sequence[Convergence], told: Sequence[Statement]) -> Iterator[Part]:
    """Yield for each model on each device one table of its trainings, and one of what follows of each group.

    A group with too few steps has none: it is a section as where there are few groups.
    """
    works: dict[tuple[str, str, str, str], list[Convergence]] = {}
    for group in groups:
        if not _is_short(group):
            works.setdefault((group.model, group.device, group.data, group.item), []).append(group)
    for (model, device, data, item), alike in works.items():
        over = f"each group over its first {item}s, which all of its trainings saw"
        notes = unique(note for group in alike for note in group.notes if note not in told)
        parts: tuple[Part, ...] = (
            Text(f"{over}; ± and [ ] are 95 % confidence intervals over the steps of one training", Role.DETAIL),
            Table(tuple(_all_trainings(alike, item))),
            *_all_lines(alike),
            *(Text(text(note), Role.NOTE) for note in notes),
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
        yield f"optimizer{_where(found.where)}, {how}: {'; '.join(_optimizer(s, group.item) for s in found.standings)}"
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
    return "; ".join([*_outside(rates, rates.best), *told, *last])


def _outside(rates: LearningRates, best: float) -> Iterator[str]:
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


def _optimizer(one: OptimizerResult, item: str) -> str:
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


# ── a test of a checkpoint ──────────────────────────────────────────────────────────────────────────────────


_SHOWN_CLASSES = 30
_CELL, _LEAST, _MOST_CLASSES = 44, 180, 900  # points
_NUMBERED = 30  # with more classes than this, numbers no longer fit into their cells
_CLASS = 24  # characters of a name beside the matrix
_SHOWN_GAUGES = (
    ("device_utilization", "in use", "mean"),
    ("device_memory_used_bytes", "memory at most", "most"),
    ("device_temperature_c", "mean temperature", "mean"),
    ("device_power_w", "mean power", "mean"),
)


def evaluation_document(results: TestResults) -> Document:
    """Return what a test came to."""
    return Document(f"Evaluation of {results.training}", tuple(_test_parts(results)))


def _test_parts(results: TestResults) -> Iterator[Part]:
    yield Text(_test_answer(results), Role.HEADLINE)
    yield Fields(tuple(_facts(results)))
    if results.quality is not None:
        yield _classes(results.quality)
        says = "Which class items were taken for: rows are what they are, shades are shares of the row"
        yield Chart("confusion_matrix", says, confusion(results.quality))
    yield Fields(tuple(results.files.items()))


def _test_answer(results: TestResults) -> str:
    loss = units.significant(results.loss, 4)
    if results.quality is None:
        return f"Loss {loss} over {results.items:,} items."
    share = results.quality.accuracy
    low, high = wilson(share, results.items)
    between = f"95 % confidence interval {_test_percent(low)} to {_test_percent(high)}"
    return f"Accuracy {_test_percent(share)} ({between}, {results.items:,} items), loss {loss}."


def _facts(results: TestResults) -> Iterator[tuple[str, str]]:
    yield "training", results.training
    yield "epoch", str(results.epoch)
    split = f", split {results.split}" if results.split else ""
    yield "data", f"{results.data}{split}: {results.items:,} items"
    yield "loss", units.significant(results.loss, 4)
    if (quality := results.quality) is not None:
        yield "accuracy", _test_percent(quality.accuracy)
        recall, f1 = _test_percent(quality.recall), _test_percent(quality.f1)
        yield "precision", f"{_test_percent(quality.precision)}, recall {recall}, F1 {f1} (means over classes)"
    rate, batch = units.quantity(results.throughput, "items/s"), units.quantity(results.time_per_batch_s, "s")
    yield "speed", f"{rate}, {batch} a batch (median, answers read)"
    if gauges := list(_gauges(results)):
        yield "device", ", ".join(gauges)


def _gauges(results: TestResults) -> Iterator[str]:
    for metric, words, how in _SHOWN_GAUGES:
        if (found := results.gauges.get(metric)) is not None:
            yield f"{words} {units.quantity(getattr(found, how), RAW[metric].unit)}"


def _classes(quality: TestMetrics) -> Part:
    """Return the figures of each class with its row of the confusion matrix, or where they are, of too many."""
    if len(quality.classes) > _SHOWN_CLASSES:
        where = "those of each, and the confusion matrix, are in the file of metrics"
        return Text(f"{len(quality.classes)} classes: {where}")
    names = tuple(f"{n} {name}" for n, name in enumerate(quality.classes))
    each = quality.per_class
    return Table.of(
        Column("class", names, left=True),
        Column("items", tuple(str(c.support) for c in each)),
        Column("precision", tuple(units.quantity(c.precision, "ratio") for c in each)),
        Column("recall", tuple(units.quantity(c.recall, "ratio") for c in each)),
        Column("F1", tuple(units.quantity(c.f1, "ratio") for c in each)),
        *(Column(f"→{n}", tuple(str(row[n]) for row in quality.confusion_matrix), 1) for n in range(len(names))),
    )


def _test_percent(share: float) -> str:
    return f"{100.0 * share:.2f} %"


def confusion(metrics: TestMetrics) -> Picture:
    """Return the confusion matrix: rows are what items are, columns what they were taken for, shades shares of the row.

    With many classes without numbers.
    """
    names = [name if len(name) <= _CLASS else f"{name[: _CLASS - 1]}…" for name in metrics.classes]
    if len(set(names)) < len(names):
        names = [f"{number} {name}" for number, name in enumerate(names)]
    values = [
        {"is": names[i], "taken for": names[j], "items": count, "share": count / max(1, sum(row))}
        for i, row in enumerate(metrics.confusion_matrix)
        for j, count in enumerate(row)
    ]
    side = min(_MOST_CLASSES, max(_LEAST, _CELL * len(names)))
    cells = vl.cells("share", "of the row", "items" if len(names) <= _NUMBERED else None)
    x, y = vl.name_axis("taken for", "taken for", names), vl.row_axis("is", "is", names)
    title = f"accuracy {metrics.accuracy:.1%} of {metrics.items:,} items"
    return Picture(title, (vl.panel("", x, y, cells, values, width=side, height=side),))
