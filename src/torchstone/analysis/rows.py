"""A run as tables: one row a Case, a Trial, or a raw value. All rows of a table have the same columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from torchstone.analysis.summary import CaseSummary, RunSummary, summarize
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.schema.facts import flat
from torchstone.core.schema.metric import FIGURES
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Series, Stage, Status, Trial
from torchstone.core.stats.readings import energy_tick_s, increase, integral
from torchstone.storage.query import entry_of

Row = dict[str, Scalar]

# Columns that are there even where nothing was measured: who reads many tables need not ask which has them.
ALWAYS = (
    "dataset_time_s",
    "total_time_s",
    "throughput",
    "latency_per_batch_mean_s",
    "latency_per_batch_p95_s",
    "latency_per_batch_p99_s",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_utilization",
    "device_temperature_c",
    "average_power_w",
)


def case_rows(run: Run, summary: RunSummary | None = None) -> list[Row]:
    """Return one row a Case: workload, settings, device, how its trials ended, and each figure with its interval.

    `summary`: the run's, where it has been summed up already.
    """
    summary = summary or summarize(entry_of(run, Path()))
    names = _names(name for case in summary.cases for name in case.estimates)
    cases = {case.case_id: case for case in run.head.plan.cases}
    return _even(
        {**_run(run), **_case(run, cases[case.case_id]), **_items(case), **_ended(case), **_figures(case, names)}
        for case in summary.cases
    )


def trial_rows(run: Run) -> list[Row]:
    """Return one row a Trial, in the order they were taken: its Case, how it ended, its figures and its facts."""
    cases = {case.case_id: case for case in run.head.plan.cases}
    derived = [figures(trial).values for trial in run.trials]
    names = _names(name for values in derived for name in values)
    return _even(
        {
            **_run(run),
            **_trial(trial),
            **_case(run, cases[trial.case_id]),
            **{name: values.get(name) for name in names},
            **{f"fact_{key}": value for key, value in flat(trial.facts).items()},
        }
        for trial, values in zip(run.trials, derived, strict=True)
    )


def sample_rows(run: Run) -> list[Row]:
    """Return one row a raw value: steps and windows of Measurements, then the readings of Series with their time."""
    return [row for trial in run.trials for row in _samples(run.head.run_id, trial)]


def _names(having: Iterable[str]) -> list[str]:
    """Return the figures to write in the table's order, then the phases that a user named."""
    found = dict.fromkeys(having)
    return [name for name in dict.fromkeys((*FIGURES, *found)) if name in found or name in ALWAYS]


_OF_SAMPLES = ("metric", "stage", "window", "phase", "source", "device", "rank", "index", "at_s", "value")


def _samples(run_id: str, trial: Trial) -> Iterator[Row]:
    which: Row = {"run_id": run_id, "trial_id": trial.trial_id, "case_id": trial.case_id, **dict.fromkeys(_OF_SAMPLES)}
    for m in trial.measurements:
        for index, value in enumerate(m.values):
            of_step = {"metric": m.metric, "stage": str(m.stage), "window": m.window, "phase": m.phase, "rank": m.rank}
            yield {**which, **of_step, "index": index, "value": value}
    for s in trial.series:
        for index, (at_s, value) in enumerate(zip(s.at_s, s.values, strict=False)):
            of_reading = {"metric": s.metric, "source": s.source, "device": s.device, "rank": s.rank}
            yield {**which, **of_reading, "index": index, "at_s": at_s, "value": value}


def _run(run: Run) -> Row:
    head = run.head
    return {
        "run_id": head.run_id,
        "run_name": head.name,
        "started_utc": head.started_utc,
        "host": head.machine.host.hostname,
        "processor": head.machine.host.processor,
        "torch": head.machine.software.get("torch"),
    }


def _case(run: Run, case: Case) -> Row:
    device = run.head.machine.device(case.placement.device, case.placement.index)
    workload = case.workload
    return {
        "device": str(case.placement),
        "device_name": device.name if device else None,
        "device_memory_bytes": device.memory_bytes if device else None,
        "compute_capability": device.compute_capability if device else None,
        "driver": device.driver if device else None,
        "case_id": case.case_id,
        "task": str(workload.task),
        "model": workload.model,
        "family": workload.family,
        "dataset": workload.data,
        **{f"dataset_{key}": value for key, value in workload.data_options.items()},
        "item": workload.item,
        **{f"fixed_{key}": value for key, value in workload.fixed.items()},
        **case.configuration,
    }


def _items(case: CaseSummary) -> Row:
    """Return how many items the data set has; None for what is made to measure."""
    told = (trial.facts.dataset_items for trial in case.trials)
    return {"dataset_items": next((items for items in told if items is not None), None)}


def _trial(trial: Trial) -> Row:
    return {
        "trial_id": trial.trial_id,
        "number": trial.number,
        "order": trial.order,
        "trial_started_utc": trial.started_utc,
        "duration_s": None if trial.facts.imported_from is not None else trial.duration_s,
        "status": str(trial.outcome.status),
        "message": trial.outcome.message,
    }


def _ended(case: CaseSummary) -> Row:
    ends = [trial.outcome.status for trial in case.trials]
    return {"verdict": str(case.verdict), "trials": len(ends), **{str(status): ends.count(status) for status in Status}}


def _figures(case: CaseSummary, names: Iterable[str]) -> Row:
    row: Row = {}
    for name in names:
        found = case.estimates.get(name)
        row[name] = found.value if found else None
        row[f"{name}_low"] = found.low if found else None
        row[f"{name}_high"] = found.high if found else None
    return row


def _even(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Give all rows the columns of any, in order of first appearance; what a row lacks is None."""
    rows = list(rows)
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{column: row.get(column) for column in columns} for row in rows]


_LEAST = 2.0  # times the resolution
_COUNTERS = ("device_energy_j", "package_energy_j")
_POWER = "device_power_w"


def energy_rows(run: Run) -> list[dict[str, Scalar]]:
    """Return a row a group of steps of every throughput window, where energy or power was read."""
    return [{"run_id": run.head.run_id, **row} for trial in run.trials for row in _of_trial(trial)]


def rise_bounds(series: Series, begin_s: float, end_s: float) -> tuple[float | None, float | None]:
    """Return the least and the most that a counter rose in a span; None where no reading lies beyond that end."""
    at_s, values = series.at_s, series.values
    first, last = bisect_left(at_s, begin_s), bisect_right(at_s, end_s) - 1  # the readings just inside
    low = max(0.0, values[last] - values[first]) if first <= last else 0.0
    before, after = bisect_right(at_s, begin_s) - 1, bisect_left(at_s, end_s)  # and just around
    high = values[after] - values[before] if before >= 0 and after < len(values) else None
    return low, high


def _of_trial(trial: Trial) -> Iterator[dict[str, Scalar]]:
    known = {series.metric: series for series in trial.series if series.rank == 0}
    series = next((known[name] for name in (*_COUNTERS, _POWER) if name in known), None)
    if series is None or len(series.at_s) < 2:
        return
    gap_s = median(after - before for before, after in pairwise(series.at_s))
    tick_s = energy_tick_s(trial) if series.metric in _COUNTERS else None
    resolution_s = max(gap_s, tick_s or 0.0)
    for window, begin_s, end_s, steps in _windows(trial):
        for first, last, start_s, stop_s in _grouped(steps, begin_s, end_s, _LEAST * resolution_s):
            yield {
                "trial_id": trial.trial_id,
                "case_id": trial.case_id,
                "window": window,
                "first_step": first,
                "last_step": last,
                "begin_s": start_s,
                "end_s": stop_s,
                **_energy(series, start_s, stop_s),
                "source": f"{series.source}: {series.metric}",
                "resolution_s": resolution_s,
            }


def _energy(series: Series, begin_s: float, end_s: float) -> dict[str, Scalar]:
    if series.metric == _POWER:  # between two readings power may have been anything: no bounds
        value = integral(series.at_s, series.values, begin_s, end_s)
        return {"energy_j": value, "energy_low_j": None, "energy_high_j": None}
    low, high = rise_bounds(series, begin_s, end_s)
    return {
        "energy_j": increase(series.at_s, series.values, begin_s, end_s),
        "energy_low_j": low,
        "energy_high_j": high,
    }


def _windows(trial: Trial) -> Iterator[tuple[str | None, float, float, Sequence[float]]]:
    """Yield name, begin, end and step times of each window whose steps follow one another."""
    steady = [m for m in trial.measurements if m.stage == Stage.STEADY and m.rank == 0 and m.phase is None]
    spans = [m for m in steady if m.metric == "window_span_s" and len(m.values) == 2]
    whole = Counter(span.window for span in spans)  # a loop of the user's own with pauses has a span for each stretch
    for span in (span for span in spans if whole[span.window] == 1):
        steps: Measurement | None = next(
            (m for m in steady if m.metric == "step_time_s" and m.window == span.window), None
        )
        if steps is not None and steps.values and sum(steps.values) > 0.0:
            yield span.window, span.values[0], span.values[1], steps.values


def _grouped(
    steps: Sequence[float], begin_s: float, end_s: float, least_s: float
) -> Iterator[tuple[int, int, float, float]]:
    """Yield first and last step (from 0), begin and end of each group that lasts at least so long.

    Steps are laid end to end over the window. What is left at the end joins no group.
    """
    scale = (end_s - begin_s) / sum(steps)
    first, start_s, now_s = 0, begin_s, begin_s
    for number, step_s in enumerate(steps):
        now_s += scale * step_s
        if now_s - start_s >= least_s:
            yield first, number, start_s, now_s
            first, start_s = number + 1, now_s
