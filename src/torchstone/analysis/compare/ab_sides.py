"""What the trials of a live comparison tell of its two sides beside the ratio: medians, items a step, other results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.figures import figures
from torchstone.core.fingerprints import Entries, fingerprint_of, first_differing, repeats
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Task, portable
from torchstone.core.schema.comparison import Comparison
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Status, Trial

if TYPE_CHECKING:
    from torchstone.analysis.summary import CaseSummary

_FIGURES = (
    "step_time_mean",
    "latency_per_batch_p50_s",
    "throughput",
    "peak_rss_bytes",
    "peak_reserved_bytes",
    "loss_first",
)
BY_PAIRS = ("step_time_mean", "throughput")  # means: steps of a loader come in bursts, which medians see alone
_RESULTS: Mapping[str, str] = {Task.TRAIN: "loss", Task.GENERATE: "digest of the first tokens"}
_WIDE = 1.5  # a ratio's interval that reaches further from its middle is no number yet


Ratio = tuple[float, float | None, float | None]


class FigureOfSides(msgspec.Struct, frozen=True):
    """One figure (a name in metric.FIGURES, in its unit) of both sides, each the median over its processes.

    `ratio`: B ÷ A and the ends of its interval; None where the pairs do not give it yet, or the figure has none.
    Of mean step time and throughput it is the ratio of the pairs, and `a` and `b` have the geometric mean of the two
    medians and this ratio: the medians of processes contain drift, which pairs do not.
    """

    name: str
    a: float
    b: float
    ratio: Ratio | None


class OtherResults(msgspec.Struct, frozen=True):
    """The first entries of the fingerprints of A and B that differ.

    `expected_of`: in what the sides differ that is meant to change results; empty where that is nothing, or one is no
    number. `what`: what an entry is of the task.
    """

    a: float
    b: float
    expected_of: tuple[str, ...]
    what: str = ""


def is_narrow(low: float, high: float) -> bool:
    """Say whether an interval of a ratio is worth being shown: not one wider than half as much again on each side."""
    return 0.0 < low <= high <= _WIDE**2 * low


def figures_of_sides(comparison: Comparison, trials: Sequence[Trial]) -> list[FigureOfSides]:
    """Return the figures that both sides have in processes that ended well."""
    well = [t for t in trials if t.outcome.status == Status.OK]
    told = [[figures(t).values for t in _of_side(side, well)] for side in "AB"]
    larger = items_ratio(trials)
    rows = []
    for name in _FIGURES:
        a, b = (_median(name, side) for side in told)
        if a is not None and b is not None:
            ratio = _ratio(name, a, b, comparison, larger)
            rows.append(FigureOfSides(name, *(_apart(a, b, ratio[0]) if name in BY_PAIRS and ratio else (a, b)), ratio))
    return rows


def _apart(a: float, b: float, ratio: float) -> tuple[float, float]:
    """Return two numbers with the geometric mean of a and b whose quotient is the ratio."""
    middle = math.sqrt(a * b)
    return middle / math.sqrt(ratio), middle * math.sqrt(ratio)


def items_ratio(trials: Sequence[Trial]) -> float:
    """Return how many times the items of A a step of B has; 1 where that is not known."""
    items = [[v for t in _of_side(side, trials) for v in t.values("items")] for side in "AB"]
    a, b = (median(each) if each else 0.0 for each in items)
    return b / a if a > 0.0 and b > 0.0 else 1.0


def other_results(comparison: Comparison, trials: Sequence[Trial], cases: Sequence[CaseSummary]) -> OtherResults | None:
    """Return where the sides compute something else; None where they agree. `cases`: those of the two sides."""
    apart = results_apart(trials)
    if apart is None:
        return None
    numbers = math.isfinite(apart.one) and math.isfinite(apart.other)
    what = next((result_words(case.workload.task) for case in cases), "result")
    return OtherResults(apart.one, apart.other, tuple(_changing(comparison, cases)) if numbers else (), what)


def results_apart(trials: Sequence[Trial]) -> Entries | None:
    """Return the first entries in which the fingerprints of A and B differ; None where they agree or are not known."""
    sides = [_of_side(side, trials) for side in "AB"]
    return first_differing(*map(fingerprint_of, sides)) if repeats(*sides) else None


def result_words(task: str) -> str:
    """Return what an entry of a fingerprint is: the loss of a step, or a moment of the output."""
    return _RESULTS.get(task, "mean or standard deviation of the output")


def _of_side(side: str, trials: Sequence[Trial]) -> list[Trial]:
    return [t for t in trials if t.facts.side == side]


def _median(name: str, told: Sequence[Mapping[str, float]]) -> float | None:
    values = [values[name] for values in told if name in values]
    return median(values) if values else None


def _ratio(name: str, a: float, b: float, found: Comparison, larger: float) -> Ratio | None:
    """Return B ÷ A. The pairs' ratio is that of an item's time; a step of B has `larger` times the items."""
    if name in BY_PAIRS:
        ratio = found.ratio
        if ratio is None or ratio.low is None or ratio.high is None or not is_narrow(ratio.low, ratio.high):
            return None
        if name == "step_time_mean":
            return ratio.value * larger, ratio.low * larger, ratio.high * larger
        return times_as_fast(ratio)
    return (b / a, None, None) if name.startswith("peak_") and a > 0.0 else None


def times_as_fast(ratio: Estimate) -> Ratio:
    """Return how many times as fast B is as A, from the ratio of their times: it turns round, and so do its ends."""
    return 1.0 / ratio.value, 1.0 / ratio.high if ratio.high else None, 1.0 / ratio.low if ratio.low else None


def _changing(found: Comparison, cases: Sequence[CaseSummary]) -> Iterator[str]:
    """Yield in what the sides differ that changes what is computed, by its nature."""
    known = {case.case_id: case for case in cases}
    a, b = (known.get(side.case_id) for side in (found.baseline, found.candidate))
    if a is None or b is None:
        return
    for name in ("task", "model", "data"):
        one, other = (portable(str(getattr(case.workload, name))) for case in (a, b))
        if one != other:
            yield "another command" if a.workload.is_program else f"another {name}"
    if a.placement.device != b.placement.device:
        yield "another device"
    for name, axis in AXES.items():
        values = [case.configuration.get(name, axis.default) for case in (a, b)]
        if axis.changes_result and values[0] != values[1]:
            yield f"{name} {values[0]} against {values[1]}"
