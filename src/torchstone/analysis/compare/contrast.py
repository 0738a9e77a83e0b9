"""One figure of two matched Cases: the ratio, how well it is known, and under which label it has to be read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.compare.compared_figures import PerTrial, moves_with_the_machine, steps_error
from torchstone.analysis.compare.matching import Taken
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats import comparing
from torchstone.core.stats.comparing import ASSUMED_OF_MEMORY, ASSUMED_OF_TIMES, Difference, Part, Templates
from torchstone.core.stats.nested import ASSUMED_SPREAD
from torchstone.core.stats.paired import in_turn
from torchstone.core.units import percent

_RUNS = 3  # of one side: from here on the run is the replicate, which drift cannot fool
_WORTH = 0.01  # a smaller drift widens the interval too, and is not worth a word
Drifts = Mapping[tuple[str, str], float]  # by run id and figure: how far it moved over the run, as a log

WELCH = "Welch's t on the log over batches of trials"
PAIRED = "t on the log ratios of rounds"
BY_RUNS = "Welch's t on the log over runs"
ONE_TRIAL = f"one trial: the variation between processes is not measured, {percent(comparing.ASSUMED)} is assumed"


class Contrast(msgspec.Struct, frozen=True):
    """Candidate less baseline of logs, the method in words, trials on the thinner side, samples, and labels."""

    difference: Difference
    method: str
    trials: int
    samples: int
    labels: tuple[str, ...]


class Sides(msgspec.Struct, frozen=True):
    """Both sides of a comparison of Cases. `apart`: lengths of a run between them; None on two machines."""

    baseline: Sequence[Taken]
    candidate: Sequence[Taken]
    apart: float | None

    @property
    def in_turn(self) -> bool:
        """Whether both are Cases of one run, so that their trials were taken in turn."""
        ids = {taken.run.head.run_id for side in (self.baseline, self.candidate) for taken in side}
        return len(ids) == 1


def contrast(metric: str, sides: Sides, a: Sequence[PerTrial], b: Sequence[PerTrial], drifts: Drifts) -> Contrast:
    """Return the contrast of a figure that both sides have."""
    samples = sum(each.samples for each in (*a, *b))
    if sides.in_turn and len(a) == len(b) == 1:
        moves = moves_with_the_machine(metric)
        prior = sides.candidate[0].of_run.pair_prior(metric) if moves else None
        assumed = ASSUMED_SPREAD if moves else ASSUMED_OF_MEMORY
        found = in_turn(
            _rounds(b[0]), _rounds(a[0]), prior, dict(zip(a[0].numbers, a[0].templates, strict=False)), assumed
        )
        if found is not None:
            return Contrast(found, PAIRED, found.candidate.trials, samples, ())
    labels: dict[str, None] = {}
    parts: list[Part] = []
    for which, side, values in (("baseline", sides.baseline, a), ("candidate", sides.candidate, b)):
        part, label = _part(metric, side, values, sides.apart, drifts)
        parts.append(part)
        if label is not None:
            labels[f"{which}: {label}"] = None
    by_runs = len(a) >= _RUNS and len(b) >= _RUNS
    single = any(sum(len(each.values) for each in values) == 1 for values in (a, b))
    method = ONE_TRIAL if single else BY_RUNS if by_runs else WELCH
    thin = min(sum(len(each.values) for each in values) for values in (a, b))
    return Contrast(comparing.difference(*parts), method, thin, samples, tuple(labels))


def _rounds(values: PerTrial) -> dict[int, float]:
    return {number: math.log(value) for number, value in zip(values.numbers, values.values, strict=True)}


def _part(
    metric: str, side: Sequence[Taken], values: Sequence[PerTrial], apart: float | None, drifts: Drifts
) -> tuple[Part, str | None]:
    """Return what one side says of a figure, and its label."""
    logs = [[math.log(value) for value in each.values] for each in values]
    if len(logs) >= _RUNS:
        return comparing.of_independent([fmean(each) for each in logs]), None
    together = [value for each in logs for value in each]
    if len(together) == 1:
        (taken,) = [one for one in side if one.trials][:1]
        return comparing.of_one(together[0], steps_error(taken, metric)), ONE_TRIAL
    drifting = moves_with_the_machine(metric)
    moved = max((drifts.get((one.run.head.run_id, metric), 0.0) for one in side), key=abs) if drifting else 0.0
    # How far a run moved while it was taken, so little is known of where it would have been at the other's time.
    label = "figures drifted over its run, which widens their intervals" if abs(moved) > _WORTH else None
    assumed = ASSUMED_OF_TIMES if drifting else ASSUMED_OF_MEMORY
    return comparing.of_run(together, apart if drifting else None, moved, Templates(_templates(values), assumed)), label


def _templates(values: Sequence[PerTrial]) -> list[tuple[int, Scalar]]:
    """Return the template of each trial of a side, told apart by the run it is of; none where a run does not tell."""
    if not all(each.templates for each in values):
        return []
    return [(place, template) for place, each in enumerate(values) for template in each.templates]


def drifts_of(cases: Sequence[tuple[Taken, Mapping[str, PerTrial]]]) -> dict[tuple[str, str], float]:
    """Return how far each figure moved over each run: its Cases were taken in turn, and show one drift together."""
    grouped: dict[tuple[str, str], list[tuple[Sequence[float], Sequence[float]]]] = {}
    for taken, values in cases:
        for metric, each in values.items():
            grouped.setdefault((taken.run.head.run_id, metric), []).extend(_within_templates(each))
    found = {key: comparing.drift_seen(each) for key, each in grouped.items()}
    return {key: moved for key, moved in found.items() if moved}


def _within_templates(values: PerTrial) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    """Yield places and logs of the trials of each template: what templates differ by must not look like a drift."""
    templates = values.templates or (None,) * len(values.values)
    for template in dict.fromkeys(templates):
        having = [place for place, its in enumerate(templates) if its == template]
        if len(having) > 1:
            yield [float(values.places[at]) for at in having], [math.log(values.values[at]) for at in having]
