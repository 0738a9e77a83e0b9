"""Figures: one number a trial, derived on reading from raw values. A corrected formula needs no re-measuring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median

import msgspec

from torchstone.core.over_ranks import communication, over_ranks
from torchstone.core.schema.metric import FIGURES, OF_RUNTIMES, may_be_zero
from torchstone.core.schema.trial import Stage, Trial
from torchstone.core.stats.convergence import ending, rate
from torchstone.core.stats.disturbance import undisturbed_part
from torchstone.core.stats.quantile import quantile
from torchstone.core.stats.readings import FigureValues, from_series, pool

LATENCY, FIRST_TOKEN, EACH_TOKEN = "latency_per_batch", "time_to_first_token", "time_per_output_token"
QUERY = "query_latency"
_HIGH = {"p90": 0.90, "p95": 0.95, "p99": 0.99}
PERCENTILES = {f"{name}_{word}_s": q for name in (LATENCY, FIRST_TOKEN, EACH_TOKEN, QUERY) for word, q in _HIGH.items()}
PHASE = "phase_"  # figures of phases: the engines' are in the table, the names of others are their users'
ANATOMY_STEP = "anatomy_step_s"
_MEMORY = (
    "allocated_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "allocator_retries",
    "kv_cache_bytes",
)
_ANSWERING = ("infer", "generate", "loadgen", "call")
_COUNTED = ("flops_per_step", "traffic_per_step_bytes", "operators_per_step", "arithmetic_intensity")


class Figures(msgspec.Struct, frozen=True):
    """Every entry of terms.metric.FIGURES that one Trial supports, in that table's units; what it lacks is absent.

    `samples` has the same keys: how many steps (or readings of a gauge) stand behind each value.
    """

    values: dict[str, float]
    samples: dict[str, int]


def figures(trial: Trial) -> Figures:
    """Derive the figures of one Trial from its Measurements and Series (over ranks, steady unless the name says setup).

    Rates are total items over total time. A trial that failed has what it measured before it did, mostly nothing.
    A value that is not finite is left out: a check tells why, and no interval can be made of it.
    """
    found: FigureValues = communication(trial)
    trial = over_ranks(trial)
    items = raw(trial, "items")
    quiet = undisturbed_part(trial)  # counters and gauges are of whole windows, and so are the items they are shared by
    found.update(_rates(quiet))
    found.update(_steps(quiet))
    found.update(_latencies(quiet))
    found.update(_generation(quiet))
    found.update(_of_load(quiet))
    found.update(_waits(quiet))
    found.update(_single(trial))
    found.update(_losses(trial))
    found.update(from_series(trial, sum(items) if items else None))
    found.update(_totals(trial, found))
    phases = _phases(trial)
    found.update(phases)
    claimed = trial.facts.claimed  # of another tool's: where it kept no raw values, its word is all there is
    steps = claimed.get("steps", 1.0)
    for name, value in claimed.items():
        if value == 0.0 and not may_be_zero(name):
            continue  # it stands for what is missing
        found.setdefault(name, (value, int(steps) if 1.0 <= steps < math.inf else 1))
    kept = {n: found[n] for n in dict.fromkeys((*FIGURES, *phases)) if n in found and math.isfinite(found[n][0])}
    return Figures({n: v for n, (v, _) in kept.items()}, {n: s for n, (_, s) in kept.items()})


def with_counted(trials: Sequence[Figures]) -> list[Figures]:
    """Return the figures of one case's trials with what a step needs in each: it is counted in some, the same in all.

    What follows from it, the operations a second, is derived for the others as for the trial that counted.
    """
    counted = {name: t.values[name] for t in trials for name in _COUNTED if name in t.values}
    return [t if not counted or "flops_per_step" in t.values else _completed(t, counted) for t in trials]


def _completed(trial: Figures, counted: Mapping[str, float]) -> Figures:
    values, samples = {**trial.values, **counted}, {**trial.samples, **dict.fromkeys(counted, 1)}
    mean_s = trial.values.get("step_time_mean")
    if mean_s is not None and mean_s > 0.0 and "flops_per_step" in counted:
        values["achieved_flops"] = counted["flops_per_step"] / mean_s
        samples["achieved_flops"] = trial.samples["step_time_mean"]
    return Figures(values, samples)


def raw(trial: Trial, metric: str, latency: bool | None = None) -> tuple[float, ...]:
    """Return the steady values of a raw Metric, windows in order: of the latency window, of the others, or of all.

    Users of the Python API name their windows; every name but "latency" is a throughput window.
    """
    return tuple(
        value
        for m in trial.measurements
        if m.metric == metric and m.stage == Stage.STEADY and m.phase is None and m.rank == 0
        if latency is None or (m.window == "latency") is latency
        for value in m.values
    )


def closed_loop_only(trial: Trial) -> bool:
    """Return whether the trial measured a latency window and no throughput window."""
    return not raw(trial, "window_time_s", False)


def _rates(trial: Trial) -> FigureValues:
    side = closed_loop_only(trial)
    time_s = sum(raw(trial, "window_time_s", side))
    items, tokens = raw(trial, "items", side), raw(trial, "tokens", side)
    found: FigureValues = {}
    if time_s > 0.0 and sum(items) > 0.0:
        throughput = sum(items) / time_s
        found["throughput"] = (throughput, len(items))
        found["time_per_item_s"] = (time_s / sum(items), len(items))
        dataset_items = trial.facts.dataset_items
        if isinstance(dataset_items, int | float) and dataset_items > 0:
            whole = "dataset_time_s" if trial.facts.task in _ANSWERING else "epoch_time_s"
            found[whole] = (dataset_items / throughput, len(items))
    each = trial.facts.new_tokens  # a text that is continued: the raw tokens are those of its prompt
    made = sum(items) * each if isinstance(each, int) else 0.0
    if time_s > 0.0 and made > 0.0:
        found["output_token_throughput"] = (made / time_s, len(items))
    if time_s > 0.0 and tokens:
        found["token_throughput"] = ((sum(tokens) + made) / time_s, len(tokens))
    return found


def _steps(trial: Trial) -> FigureValues:
    steps, flops = raw(trial, "step_time_s", False), trial.values("flops", Stage.SETUP)
    found = _counted(trial)
    if steps:
        mean = fmean(steps)
        found["step_time_p50"] = (median(steps), len(steps))
        found["step_time_mean"] = (mean, len(steps))
        found["step_time_min"] = (min(steps), len(steps))
        found["step_time_max"] = (max(steps), len(steps))
        if len(steps) > 1:
            found["step_time_std"] = (_spread(steps, mean), len(steps))
        if flops and mean > 0.0:
            found["achieved_flops"] = (flops[0] / mean, len(steps))
    return found


def _counted(trial: Trial) -> FigureValues:
    """Return what one step needs, which is the same in every step."""
    names = {"flops": "flops_per_step", "traffic_bytes": "traffic_per_step_bytes", "operators": "operators_per_step"}
    told = {figure: trial.values(metric, Stage.SETUP) for metric, figure in names.items()}
    found: FigureValues = {figure: (values[0], 1) for figure, values in told.items() if values}
    flops, traffic = found.get("flops_per_step"), found.get("traffic_per_step_bytes")
    if flops is not None and traffic is not None and traffic[0] > 0.0:
        found["arithmetic_intensity"] = (flops[0] / traffic[0], 1)
    return found


def _spread(values: Sequence[float], mean: float) -> float:
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _latencies(trial: Trial) -> FigureValues:
    times, items = raw(trial, "latency_s", True), raw(trial, "items", True)
    n = len(times)
    if n == 0:
        return {}
    found = _order_statistics(LATENCY, times)
    found["latency_per_batch_min_s"] = (min(times), n)
    found["latency_per_batch_max_s"] = (max(times), n)
    if len(items) == n and min(items) > 0.0:
        found["latency_per_item_s"] = (median(t / i for t, i in zip(times, items, strict=True)), n)
    return found


def _generation(trial: Trial) -> FigureValues:
    """Return what a closed loop told of its tokens: the first, and those after it, a value a batch of prompts."""
    first, each = raw(trial, "time_to_first_token_s"), raw(trial, "time_per_output_token_s")
    found = {**_order_statistics(FIRST_TOKEN, first), **_order_statistics(EACH_TOKEN, each)}
    prompts = raw(trial, "tokens", True)
    if len(prompts) == len(first) and sum(first) > 0.0:
        found["prompt_token_throughput"] = (sum(prompts) / sum(first), len(first))
    return found


def _of_load(trial: Trial) -> FigureValues:
    """Return what a load generator measured: the latency of queries, and how many items their batches had."""
    found = _order_statistics(QUERY, raw(trial, "query_latency_s"))
    if raw(trial, "batch_time_s"):
        items = raw(trial, "items")
        found["items_per_batch"] = (fmean(items), len(items))
    return found


def _order_statistics(name: str, times: Sequence[float]) -> FigureValues:
    """Return mean, median and the high percentiles of times (s), as figures of that name; nothing of none."""
    if not times:
        return {}
    ordered, n = sorted(times), len(times)
    found: FigureValues = {f"{name}_{word}_s": (quantile(ordered, q), n) for word, q in _HIGH.items()}
    found[f"{name}_mean_s"], found[f"{name}_p50_s"] = (fmean(times), n), (median(ordered), n)
    return found


def _waits(trial: Trial) -> FigureValues:
    side = closed_loop_only(trial)
    waits, time_s = raw(trial, "data_wait_s", side), sum(raw(trial, "window_time_s", side))
    found: FigureValues = {"data_wait_s": (median(waits), len(waits))} if waits else {}
    if waits and time_s > 0.0:
        found["data_wait_share"] = (sum(waits) / time_s, len(waits))
    return found


def _single(trial: Trial) -> FigureValues:
    """Return what a trial has once: from its setup, its memory, and its losses."""
    answers = trial.facts.task in _ANSWERING
    first = "time_to_first_prediction_s" if answers else "first_step_time_s"
    setup = {first: "first_step_time_s", "model_load_time_s": "model_load_time_s", "start_time_s": "start_time_s"}
    setup |= {name: name for name in OF_RUNTIMES}
    if answers and trial.values("first_query_time_s", Stage.SETUP):  # asked before there are steps
        setup[first] = "first_query_time_s"
    named = {figure: trial.values(metric, Stage.SETUP) for figure, metric in setup.items()}
    found: FigureValues = {figure: (values[0], 1) for figure, values in named.items() if values}
    for metric in _MEMORY:
        values = raw(trial, metric)
        if values:
            found[metric] = (pool(values, FIGURES[metric].over_steps), len(values))
        if before := trial.values(metric, Stage.WARMUP):
            found[f"warmup_{metric}"] = (max(before), 1)
    readings = [(s.rank, v) for s in trial.series if s.metric == "rss_bytes" for v in s.values]
    # Both, as Linux adds up its counters exactly for a reading, and roughly for the peak (2 % lower was measured).
    peaks = (*raw(trial, "peak_rss_bytes"), *(v for rank, v in readings if rank == 0))
    if peaks:
        found["peak_rss_bytes"] = (max(peaks), len(peaks))
    if readings:
        found["mean_rss_bytes"] = (fmean(v for _, v in readings), len(readings))
    return found


def loss_curve(trial: Trial) -> tuple[float, ...]:
    """Return the losses of the first steps of the process, one after another: the curve that can be fitted.

    Of a long training the engine keeps the first thousands and the last: that one lies far behind the others.
    """
    kept = raw(trial, "loss")
    warmup = trial.values("step_time_s", Stage.WARMUP)
    steps = 1 + len(warmup) + len(raw(trial, "step_time_s"))
    return kept[:-1] if 1 < len(kept) < steps else kept


def _losses(trial: Trial) -> FigureValues:
    """Return what the kept losses say: the first steps of the process and every later one up to the engine's limit."""
    losses = raw(trial, "loss")
    n = len(losses)
    if n == 0 or not all(map(math.isfinite, losses)):
        return {"loss_first": (losses[0], 1), "loss_last": (losses[-1], 1)} if n else {}
    found: FigureValues = {"loss_first": (losses[0], 1), "loss_last": (losses[-1], 1)}
    found.update(loss_min=(min(losses), n), loss_max=(max(losses), n), loss_mean=(fmean(losses), n))
    if n > 1:
        found["loss_std"] = (_spread(losses, fmean(losses)), n)
    curve, items = loss_curve(trial), raw(trial, "items")
    if (end := ending(curve)) is not None:
        found["loss_end"] = (end.value, len(curve))
    if (fall := rate(curve)) is not None:
        found["loss_convergence_rate"] = (fall.value, fall.steps)
        if items and sum(items) > 0.0:
            found["loss_rate_per_1000_items"] = (1000.0 * fall.value / fmean(items), fall.steps)
    return found


def _phases(trial: Trial) -> FigureValues:
    """Return `phase_<name>_s`, the mean time a step of each named phase, and the mean step that they sum to.

    Medians of parts do not sum to anything, and leave out what comes in every n-th step only: the batch that a loader's
    process was late with.
    """
    parts = [
        m
        for m in trial.measurements
        if m.metric == "phase_time_s" and m.stage == Stage.STEADY and m.phase and m.values and m.rank == 0
    ]
    found: FigureValues = {f"{PHASE}{m.phase}_s": (fmean(m.values), len(m.values)) for m in parts}
    if steps := raw(trial, "anatomy_step_time_s"):
        found[ANATOMY_STEP] = (fmean(steps), len(steps))
    return found


def _totals(trial: Trial, found_before: FigureValues) -> FigureValues:
    """Return the totals of all steady windows together, and the energy of a step where that of the windows is known."""
    steps = len(raw(trial, "step_time_s", False)) + len(raw(trial, "latency_s", True))
    items, time_s, faults = raw(trial, "items"), raw(trial, "window_time_s"), raw(trial, "minor_faults")
    found: FigureValues = {}
    if steps:
        found["steps"] = (steps, steps)
    if items:
        found["total_items"] = (sum(items), len(items))
    if time_s:
        found["total_time_s"] = (sum(time_s), len(time_s))
    if steps and "energy_j" in found_before:
        energy_j, readings = found_before["energy_j"]
        found["energy_per_step_j"] = (energy_j / steps, readings)
    if faults and steps:
        found["minor_faults_per_step"] = (sum(faults) / steps, steps)
    return found
