"""Shared by the checks on losses: the loss curves of a run, and settings that stabilise a training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.figures import loss_curve
from torchstone.core.schema.case import Case
from torchstone.core.schema.run import Run
from torchstone.core.stats.stability import has_diverged
from torchstone.plugins.checks._cases import setting, sound

Curves = Sequence[Sequence[float]]
_RISE = "use a learning-rate warm-up"


def curves(run: Run) -> Iterator[tuple[str, Case, Curves]]:
    """Yield (case_id, Case, the losses of each of its sound trials) for each Case that has losses."""
    for case_id, case, trials in sound(run):
        if found := [curve for trial in trials if (curve := loss_curve(trial))]:
            yield case_id, case, found


def steadier(case: Case, run: Run) -> str:
    """Return what to change, the likeliest cure first; what the Case does already is left out."""
    configuration, cures = case.configuration, []
    if configuration.get("precision") == "fp16":
        cures.append(f"{setting(run, 'precision', 'bf16')}, which has the range of fp32")
    rate, clip = configuration.get("learning_rate"), configuration.get("grad_clip")
    if isinstance(rate, int | float) and rate > 0.0:
        steady = _lower_and_steady(case, run, rate)
        lower = setting(run, "learning_rate", f"{rate / 10.0 if steady is None else steady:g}")
        cures.append(f"{lower} (it was {rate:g})" if steady is None else f"{lower}, which was stable here")
    if isinstance(clip, int | float):
        tighter = setting(run, "grad_clip", f"{clip / 4.0:g}" if clip else 1)
        cures.append(f"{tighter} (it was {clip:g})" if clip else tighter)
    return f"measure again with {'; or with '.join(cures)}; or {_RISE}" if cures else _RISE


def _lower_and_steady(case: Case, run: Run, rate: float) -> float | None:
    """Return the highest lower learning rate of a Case that is equal but for it, and whose losses came back."""
    rates = []
    for _, other, losses in curves(run):
        lower = other.configuration.get("learning_rate")
        if isinstance(lower, int | float) and lower < rate and _rest(other) == _rest(case):
            rates += [lower] if not any(map(has_diverged, losses)) else []
    return max(rates, default=None)


def _rest(case: Case) -> tuple[object, ...]:
    others = sorted((name, value) for name, value in case.configuration.items() if name != "learning_rate")
    return (case.workload.canonical(), str(case.placement), others)
