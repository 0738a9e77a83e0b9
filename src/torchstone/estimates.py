"""Estimates: a figure over the trials of one Case, with its interval. Steps of several trials are never pooled."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.figures import ANATOMY_STEP, PERCENTILES, PHASE, Figures
from torchstone.stats.interval import over_trials
from torchstone.stats.quantile import needed
from torchstone.terms.estimate import Estimate
from torchstone.terms.metric import FIGURES, Unit

# Every trial has the same seed: how far their losses lie apart is rounding, and nothing that another seed would show.
ONE_TRAINING = "mean over trials of one training"


def estimates(trials: Sequence[Figures], level: float = 0.95) -> dict[str, Estimate]:
    """Return an Estimate, in the unit of its figure, for each figure that at least one trial has.

    The trials (of one Case) are the replicates: `trials` is how many have the figure, `samples` the steps behind them
    all. One trial has no interval. A percentile that the smallest trial's sample cannot hold is `supported=False`.
    Raises ValueError where level is outside (0, 1).
    """
    own = dict.fromkeys(name for t in trials for name in t.values if name not in FIGURES)  # a user's own phases
    return {name: _estimate(name, having, level) for name in (*FIGURES, *own) if (having := _having(name, trials))}


def _having(name: str, trials: Sequence[Figures]) -> list[Figures]:
    return [t for t in trials if name in t.values]


def _estimate(name: str, trials: Sequence[Figures], level: float) -> Estimate:
    parts = name.startswith(PHASE) or name == ANATOMY_STEP  # arithmetic means, so that they still sum to the step
    value, low, high, method = over_trials([t.values[name] for t in trials], level, logs=not parts)
    unit = FIGURES[name].unit if name in FIGURES else Unit.SECOND
    if unit == Unit.RATIO and high is not None:  # a share cannot pass 1, whatever its logarithm says
        low, high = min(low or 0.0, 1.0), max(value, min(high, 1.0))
    one_training = name.startswith("loss_")
    if one_training:
        low, high, method = None, None, ONE_TRAINING
    if parts and low is not None:
        low = max(low, 0.0)
    samples = [t.samples[name] for t in trials]
    least = needed(PERCENTILES[name]) if name in PERCENTILES else 0
    supported = min(samples) >= least
    notes = [] if supported else [f"needs {least} steady samples a trial"]
    if one_training:
        notes.append("the trials repeat one training: no interval")
    elif len(trials) == 1:
        notes.append("one trial: no interval")
    return Estimate(
        value=value,
        low=low,
        high=high,
        level=level,
        unit=str(unit),
        method=method,
        trials=len(trials),
        samples=sum(samples),
        supported=supported,
        note="; ".join(notes) or None,
    )
