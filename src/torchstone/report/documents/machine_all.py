"""All devices of a machine as a Document: which is slow, what they take from each other, and every rate."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core import units
from torchstone.core.schema.estimate import Estimate
from torchstone.report.document import Column, Document, Part, Role, Table, Text
from torchstone.workflows.machine_check.examination import SideBySide

_MOST_ROWS = 48


def machine_all_document(found: SideBySide) -> Document:
    """Return the verdict, a table of every device at each kind of work, and the rule."""
    return Document("Machine check of all devices", tuple(_parts(found)))


def _parts(found: SideBySide) -> Iterator[Part]:
    yield Text(_verdict(found), Role.HEADLINE)
    rows = found.rows
    if not rows:
        return
    columns = [
        Column("device", tuple(row.device for row in rows), left=True),
        Column("work", tuple(row.work for row in rows), left=True),
        Column("alone", tuple(units.quantity(row.alone.value, row.unit) for row in rows), 2),
    ]
    if len(found.devices) > 1:
        columns += [
            Column("of the others, alone", tuple(_ratio(row.of_median_alone) for row in rows), 1),
            Column("of the others, all at once", tuple(_ratio(row.of_median_together) for row in rows), 1),
            Column("all at once ÷ alone", tuple(_ratio(row.kept) for row in rows)),
            Column("slow", tuple(", ".join(row.slow) for row in rows), left=True),
        ]
    yield Table(tuple(columns), most=_MOST_ROWS)
    yield Text(
        f"{found.rounds} rounds, each device alone and all at once, in random order; 95 % confidence intervals. A slow "
        f"device is below {units.percent(1.0 - found.bound)} of the median of all (of two: of the other), with its "
        "whole interval, and of four or more an outlier, too (modified z-score below -3.5)."
    )


def _verdict(found: SideBySide) -> str:
    if len(found.devices) < 2:
        return f"There is only one device here, {', '.join(found.devices)}: nothing beside it to compare with."
    slow = list(dict.fromkeys(row.device for row in found.slow))
    worst = min(found.rows, key=lambda row: row.kept.value)
    kept = f"all at once {worst.device} keeps {_ratio(worst.kept)} of its {worst.work} alone, the least of all"
    which, count = found.what, len(found.devices)
    if not slow:
        bound = units.percent(found.bound)
        return f"None of the {which} ({count}) is slower than the others by more than {bound}; {kept}."
    return f"Of the {which} ({count}) slow: {', '.join(slow)}; {kept}."


def _ratio(one: Estimate) -> str:
    return units.ratio(one.value, one.low, one.high)
