"""What the gauges read during a test: every reading as a table, and each gauge in three numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean

import msgspec

from torchstone.core.own_files import moved
from torchstone.core.schema.metric import RAW
from torchstone.core.schema.quantity import Pool
from torchstone.core.schema.trial import Series, Trial


class Readings(msgspec.Struct, frozen=True):
    """One gauge in the metric's unit: mean, least and most of its readings, over all devices that have it."""

    mean: float
    least: float
    most: float
    readings: int


def summary_of(series: Iterable[Series]) -> Mapping[str, Readings]:
    """Return each gauge by its metric. Counters, which only rise, are left out: their mean says nothing."""
    values: dict[str, list[float]] = {}
    for one in series:
        if one.metric in RAW and RAW[one.metric].over_steps != Pool.LAST:
            values.setdefault(one.metric, []).extend(one.values)
    return {metric: Readings(fmean(v), min(v), max(v), len(v)) for metric, v in values.items() if v}


def write_gauges(trial: Trial, path: Path) -> None:
    """Write every reading: a row each, with where it comes from. Raises OSError."""
    with moved(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("at_s", "metric", "value", "source", "device"))
        for one in trial.series:
            readings = zip(one.at_s, one.values, strict=True)
            rows.writerows((at_s, one.metric, value, one.source, one.device or "") for at_s, value in readings)
