"""A checkpoint that was judged, as a Document: accuracy with its interval, then class by class, and the files."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core import units
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.metric import RAW
from torchstone.core.stats.interval import wilson
from torchstone.report.document import Chart, Column, Document, Facts, Part, Role, Table, Text
from torchstone.workflows.train.evaluation import TestMetrics, TestResults

_SHOWN_CLASSES = 30
_CELL, _LEAST, _MOST = 44, 180, 900  # points
_NUMBERED = 30  # with more classes than this, numbers no longer fit into their cells
_CLASS = 24  # characters of a name beside the matrix
_SHOWN_GAUGES = (
    ("device_utilization", "in use", "mean"), ("device_memory_used_bytes", "memory at most", "most"),
    ("device_temperature_c", "mean temperature", "mean"), ("device_power_w", "mean power", "mean"),
)  # fmt: skip


def evaluation_document(results: TestResults) -> Document:
    """Return what a test came to."""
    return Document(f"Evaluation of {results.training}", tuple(_parts(results)))


def _parts(results: TestResults) -> Iterator[Part]:
    yield Text(_answer(results), Role.HEADLINE)
    yield Facts(tuple(_facts(results)))
    if results.quality is not None:
        yield _classes(results.quality)
        says = "Which class items were taken for: rows are what they are, shades are shares of the row"
        yield Chart("confusion_matrix", says, confusion(results.quality))
    yield Facts(tuple(results.files.items()))


def _answer(results: TestResults) -> str:
    loss = units.significant(results.loss, 4)
    if results.quality is None:
        return f"Loss {loss} over {results.items:,} items."
    share = results.quality.accuracy
    low, high = wilson(share, results.items)
    between = f"95 % confidence interval {_percent(low)} to {_percent(high)}"
    return f"Accuracy {_percent(share)} ({between}, {results.items:,} items), loss {loss}."


def _facts(results: TestResults) -> Iterator[tuple[str, str]]:
    yield "training", results.training
    yield "epoch", str(results.epoch)
    split = f", split {results.split}" if results.split else ""
    yield "data", f"{results.data}{split}: {results.items:,} items"
    yield "loss", units.significant(results.loss, 4)
    if (quality := results.quality) is not None:
        yield "accuracy", _percent(quality.accuracy)
        recall, f1 = _percent(quality.recall), _percent(quality.f1)
        yield "precision", f"{_percent(quality.precision)}, recall {recall}, F1 {f1} (means over classes)"
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
    return Table((
        Column("class", names, left=True), Column("items", tuple(str(c.support) for c in each)),
        Column("precision", tuple(units.quantity(c.precision, "ratio") for c in each)),
        Column("recall", tuple(units.quantity(c.recall, "ratio") for c in each)),
        Column("F1", tuple(units.quantity(c.f1, "ratio") for c in each)),
        *(Column(f"→{n}", tuple(str(row[n]) for row in quality.confusion_matrix), 1) for n in range(len(names))),
    ))  # fmt: skip


def _percent(share: float) -> str:
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
    side = min(_MOST, max(_LEAST, _CELL * len(names)))
    cells = vl.cells("share", "of the row", "items" if len(names) <= _NUMBERED else None)
    x, y = vl.names("taken for", "taken for", names), vl.rows("is", "is", names)
    title = f"accuracy {metrics.accuracy:.1%} of {metrics.items:,} items"
    return Picture(title, (vl.panel("", x, y, cells, values, width=side, height=side),))
