"""Estimates: a figure over the trials of one Case, with its interval. Steps of several trials are never pooled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from torchstone.core.figures import ANATOMY_STEP, PERCENTILES, PHASE, Figures, with_counted
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.metric import FIGURES, Unit
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import T, Trial, ended_well, estimation_trials
from torchstone.core.stats.comparing import prior_of
from torchstone.core.stats.interval import Interval, over_trials
from torchstone.core.stats.moderated import Prior, Spread, of_history, of_siblings, trial_spread
from torchstone.core.stats.quantile import needed
from torchstone.core.units import is_wide

# Every trial has the same seed: how far their losses lie apart is rounding, and nothing that another seed would show.
MIDDLE = "the middle trial: they differ too much for an interval"
LEVEL = 0.95  # of the intervals of figures
ONE_TRAINING = "mean over trials of one training"
# Figures whose spread between trials is that of the machine, so that other cases and earlier runs tell of it.
_PACES = (Unit.SECOND, Unit.ITEM_RATE, Unit.TOKEN_RATE, Unit.FLOP_RATE)
_OF_THE_STEP = frozenset({
    "throughput", "token_throughput", "output_token_throughput", "time_per_item_s", "epoch_time_s", "dataset_time_s",
    "step_time_p50", "step_time_mean", "achieved_flops", "latency_per_batch_mean_s", "latency_per_batch_p50_s",
    "latency_per_item_s",
})  # fmt: skip
_MOST_LEFT_OUT = 24  # of more cases, one's own share in what they all say is small


def estimates(trials: Sequence[Figures], *, priors: Mapping[str, Prior] | None = None) -> dict[str, Estimate]:
    """Return an Estimate, in the unit of its figure, for each figure that at least one trial has.

    The trials (of one Case) are the replicates: `trials` is how many have the figure, `samples` the steps behind them
    all. One trial has no interval. A percentile is that of the trials whose samples hold it; where none does, it is
    `supported=False`. `priors`: what moderates the spread of a figure (`priors_of`).
    """
    there = dict.fromkeys(name for t in trials for name in t.values)
    own = [name for name in there if name not in FIGURES]  # a user's own phases
    known = priors or {}
    return {name: estimate_of(name, trials, known.get(name)) for name in (*FIGURES, *own) if name in there}


def priors_of(cases: Sequence[Sequence[Figures]], usual: float | None = None) -> list[dict[str, Prior]]:
    """Return, for each case of a run, what the others (and `usual`) say of the spread of its figures between trials.

    `cases`: the trials of each. `usual`: the standard deviation of the logarithm of a trial's throughput that earlier
    runs on this machine had; it counts where no other case of the run says anything.
    """
    spreads = [_spreads(trials) for trials in cases]
    history = of_history(usual) if usual is not None else None
    found: list[dict[str, Prior]] = [{} for _ in cases]
    for name in dict.fromkeys(name for of_case in spreads for name in of_case):
        every = [of_case.get(name) for of_case in spreads]
        whole = of_siblings([s for s in every if s is not None]) if len(cases) > _MOST_LEFT_OUT else None
        for place, own in enumerate(every):
            if own is None:
                continue
            beside = whole or of_siblings([s for at, s in enumerate(every) if at != place and s is not None])
            prior = beside or (history if name in _OF_THE_STEP else None)
            if prior is not None:
                found[place][name] = prior
    return found


def priors_of_run(run: Run, derived: Sequence[Figures]) -> list[dict[str, Prior]]:
    """Return the same of each Case of a run, in the order of its plan. `derived`: the figures of each of its trials."""
    taken: dict[str, list[tuple[Trial, Figures]]] = {case.case_id: [] for case in run.head.plan.cases}
    for trial, found in zip(run.trials, derived, strict=True):
        taken[trial.case_id].append((trial, found))
    usual = run.head.usual.deviation if run.head.usual is not None else None
    return priors_of([behind_estimates(taken[case.case_id]) for case in run.head.plan.cases], usual)


def rounds_of_run(run: Run, derived: Sequence[Figures]) -> list[list[tuple[int, Figures]]]:
    """Return of each Case of a run the round and the figures of the trials behind its estimates (`pair_prior`)."""
    found = {id(trial): figures for trial, figures in zip(run.trials, derived, strict=True)}
    return [
        [(t.number, found[id(t)]) for t in estimation_trials(ended_well(run.of_case(case.case_id)))]
        for case in run.head.plan.cases
    ]


def pair_prior(name: str, cases: Sequence[Sequence[tuple[int, Figures]]]) -> Prior | None:
    """Return what the Cases of a run, measured in turn, say of the spread of a ratio of two of them, for one figure.

    `cases`: of each, the round and the figures of the trials behind its estimates. One for all pairs of the run.
    """
    logs = [
        {number: math.log(value) for number, found in of_case if (value := found.values.get(name, 0.0)) > 0.0}
        for of_case in cases
    ]
    return prior_of(logs)


def behind_estimates(counted: Sequence[tuple[T, Figures]]) -> list[Figures]:
    """Return the figures of those trials of a Case that stand behind its estimates.

    What one step needs is counted in some trials only, and is the same in all.
    """
    found = {id(trial): own for trial, own in counted}
    return with_counted([found[id(one)] for one in estimation_trials(ended_well([trial for trial, _ in counted]))])


def _spreads(trials: Sequence[Figures]) -> dict[str, Spread]:
    names = dict.fromkeys(name for t in trials for name in t.values if name in FIGURES)
    found = {}
    for name in names:
        values = [t.values[name] for t in _having(name, trials)]
        if FIGURES[name].unit in _PACES and not name.startswith(PHASE) and name != ANATOMY_STEP and min(values) > 0.0:
            spread = trial_spread([math.log(value) for value in values])
            if spread is not None:
                found[name] = spread
    return found


def interval_of(name: str, values: Sequence[float], *, prior: Prior | None = None) -> Interval:
    """Return a figure over the trials of one Case, a value a trial, with its interval: every page has it from here.

    `prior`: what the Case's run says of the spread of this figure (`priors_of`). Trials of several runs have none:
    that is a figure of those runs together. Where the interval is too wide to be shown, the value is the middle trial.
    """
    parts = name.startswith(PHASE) or name == ANATOMY_STEP  # arithmetic means, so that they still sum to the step
    value, low, high, method = over_trials(values, LEVEL, logs=not parts, prior=prior)
    if name.startswith("loss_"):
        return Interval(value, None, None, ONE_TRAINING)
    if not parts and is_wide(value, low, high) and _is_wide_either_way(middle := _middle_of(values), low, high):
        value, method = middle, MIDDLE
    if name in FIGURES and FIGURES[name].unit == Unit.RATIO and high is not None:
        low, high = min(low or 0.0, 1.0), max(value, min(high, 1.0))  # a share cannot pass 1, whatever its log says
    if parts and low is not None:
        low = max(low, 0.0)
    return Interval(value, low, high, method)


def _middle_of(values: Sequence[float]) -> float:
    """Return the middle value; of an even number the geometric mean of two, so that rates and times stay inverse."""
    return math.exp(median(map(math.log, values))) if min(values) > 0.0 else median(values)


def _is_wide_either_way(value: float, low: float | None, high: float | None) -> bool:
    """Say whether a figure and its inverse both have intervals that are too wide: the time of a rate is told alike."""
    if value <= 0.0 or low is None or high is None or low <= 0.0:
        return is_wide(value, low, high)
    return is_wide(value, low, high) and is_wide(1.0 / value, 1.0 / high, 1.0 / low)


def _having(name: str, trials: Sequence[Figures]) -> list[Figures]:
    having = [t for t in trials if name in t.values]
    if name in PERCENTILES:
        least = needed(PERCENTILES[name])
        return [t for t in having if t.samples[name] >= least] or having
    return having


def estimate_of(name: str, trials: Sequence[Figures], prior: Prior | None = None) -> Estimate:
    """Return the Estimate of one figure that at least one of these trials has; see `estimates`."""
    trials = _having(name, trials)
    values = [t.values[name] for t in trials]
    value, low, high, method = interval_of(name, values, prior=prior)
    samples = [t.samples[name] for t in trials]
    least = needed(PERCENTILES[name]) if name in PERCENTILES else 0
    supported = min(samples) >= least
    notes = [] if supported else [f"needs {least} steady samples a trial"]
    if method == ONE_TRAINING:
        notes.append("the trials repeat one training: no interval")
    elif len(trials) == 1:
        notes.append("one trial: no interval")
    return Estimate(
        value=value,
        low=low,
        high=high,
        level=LEVEL,
        unit=str(FIGURES[name].unit if name in FIGURES else Unit.SECOND),
        method=method,
        trials=len(trials),
        samples=sum(samples),
        supported=supported,
        note="; ".join(notes) or None,
        lowest=min(values) if len(values) > 1 else None,
        highest=max(values) if len(values) > 1 else None,
    )
