"""Which figures are compared of a task, in which block, and what each trial says of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.compare.inputs import CaseTrials
from torchstone.analysis.cost import inverse
from torchstone.core.estimates import estimate_of
from torchstone.core.figures import PERCENTILES, raw
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import FIGURES, PEAKS, Better, MetricGroup
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.correlated import mean
from torchstone.core.stats.quantile import needed

COST = "cost_per_million_items"
_COMPARED = (
    "throughput", "output_token_throughput", "token_throughput", "step_time_mean", "epoch_time_s", "dataset_time_s",
    "latency_per_batch_p50_s", "latency_per_batch_p95_s", "latency_per_batch_p99_s", "latency_per_item_s",
    "time_to_first_token_p50_s", "time_per_output_token_p50_s", "time_to_first_prediction_s", "first_step_time_s",
    "model_load_time_s", *PEAKS, "kv_cache_bytes", "energy_per_item_j", "average_power_w",
)  # fmt: skip
BLOCK_OF = {**{name: str(FIGURES[name].group) for name in _COMPARED}, COST: "cost"}
FOLLOWING = (
    "step_time_mean",
    "epoch_time_s",
    "dataset_time_s",
    COST,
)  # inverse to the rate, but for a constant of the data or price
_A_BATCH = (
    "step_time_mean",
    "latency_per_batch_p50_s",
    "latency_per_batch_p95_s",
    "latency_per_batch_p99_s",
    "time_to_first_prediction_s",
    "first_step_time_s",
    "time_to_first_token_p50_s",
)
_OF_WHOLE_ANSWERS = ("throughput", "token_throughput")  # say nothing that the tokens given out do not say better
_OF_STEPS = (MetricGroup.THROUGHPUT, MetricGroup.LATENCY)  # groups whose figures move with the steps of a trial


class PerTrial(msgspec.Struct, frozen=True):
    """One figure of one Case in one run, a value a trial, with their places in the run and the samples behind all.

    `templates`: which template each trial was forked from; empty where the record does not tell.
    """

    values: tuple[float, ...]
    places: tuple[int, ...]
    numbers: tuple[int, ...]
    samples: int
    templates: tuple[Scalar, ...] = ()


def unit_of(metric: str) -> str:
    """Return the unit of a figure; of the cost it is whatever the prices were given in."""
    return "number" if metric == COST else str(FIGURES[metric].unit)


def higher_is_better(metric: str) -> bool:
    """Return which way is better."""
    return metric != COST and FIGURES[metric].better == Better.HIGHER


def primary(task: str) -> str:
    """Return the figure that answers which is faster."""
    return "output_token_throughput" if task == Task.GENERATE else "throughput"


def of_side(side: Sequence[CaseTrials], price_an_hour: float | None) -> dict[str, list[PerTrial]]:
    """Return every figure that each run of a side has in two trials or more (or in its only one), runs in order."""
    found: dict[str, list[PerTrial]] = {}
    for taken in side:
        for name, values in _of_run(taken, price_an_hour):
            found.setdefault(name, []).append(values)
    return found


def estimate_of_side(metric: str, side: Sequence[CaseTrials], price_an_hour: float | None = None) -> Estimate:
    """Return a figure of a side: of one run the estimate that `show` gives; of several that over all their trials."""
    if metric == COST:
        rate = estimate_of_side(primary(str(side[-1].case.workload.task)), side)
        hourly = (price_an_hour or 0.0) * side[-1].case.placement.paid
        return inverse(rate, 1e6 * hourly / 3600.0, unit_of(COST))
    every = [found for taken in side for found in taken.figures]
    return estimate_of(metric, every, side[0].priors.get(metric) if len(side) == 1 else None)


def _of_run(taken: CaseTrials, price_an_hour: float | None) -> Iterator[tuple[str, PerTrial]]:
    for name in BLOCK_OF:
        source = primary(str(taken.case.workload.task)) if name == COST else name
        if name == COST and price_an_hour is None:
            continue
        least = needed(PERCENTILES[name]) if name in PERCENTILES else 1
        having = [
            (one.values[source], trial, one.samples[source])
            for one, trial in zip(taken.figures, taken.trials, strict=True)
            if one.values.get(source, 0.0) > 0.0 and one.samples[source] >= least
        ]
        if not having:
            continue
        values = [value for value, _, _ in having]
        if name == COST and price_an_hour is not None:
            hourly = price_an_hour * taken.case.placement.paid
            values = [1e6 * hourly / 3600.0 / value for value in values]
        orders, numbers = tuple(t.order for _, t, _ in having), tuple(t.number for _, t, _ in having)
        samples, templates = sum(count for _, _, count in having), _templates([t for _, t, _ in having])
        yield name, PerTrial(tuple(values), orders, numbers, samples, templates)


def _templates(trials: Sequence[Trial]) -> tuple[Scalar, ...]:
    known = [trial.facts.template for trial in trials if trial.facts.template is not None]
    return tuple(known) if len(known) == len(trials) else ()


def moves_with_the_machine(metric: str) -> bool:
    """Say whether a machine's pace, which drifts, moves a figure: times and rates, but not bytes."""
    return BLOCK_OF[metric] != MetricGroup.MEMORY


def comparable(task: str, *, shapes_differ: bool, figure: str) -> bool:
    """Say whether a figure of a task can be compared, where a step may be another amount of work on either side."""
    if task == Task.GENERATE and figure in _OF_WHOLE_ANSWERS:
        return False
    return not (shapes_differ and figure in _A_BATCH)


def steps_error(side: CaseTrials, metric: str) -> float:
    """Return how well the steps of a run's only trial fix a figure: a standard error, relative.

    The mean of steps that resemble their neighbours (stats.correlated); 0 for what does not come from steps.
    """
    (trial, *_) = side.trials
    steps = raw(trial, "latency_s") if metric.startswith("latency") else raw(trial, "step_time_s")
    steps = steps or raw(trial, "latency_s")
    known = mean(steps) if BLOCK_OF[metric] in _OF_STEPS else None
    return known.error / known.value if known is not None and known.value > 0.0 else 0.0
