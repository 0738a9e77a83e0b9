"""What stored losses forbid: a setting that trains worse is not recommended for its speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.convergence import Convergence, convergence
from torchstone.analysis.advice.learning_rates import LearningRates
from torchstone.analysis.advice.loss_curves import AXES, read_curves
from torchstone.analysis.advice.optimizers import Optimizers
from torchstone.analysis.recommend.candidates import once_a_case
from torchstone.analysis.summary import summarize
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case
from torchstone.core.stats.convergence import UNSTABLE, Sameness
from torchstone.storage.measured import Measured
from torchstone.storage.place import Place
from torchstone.storage.query import find

_MOST_RUNS = 2  # the newest that compare trainings of one model on one device
_MOST_BYTES = 64 * 2**20  # a larger record would make everybody wait: `show` reads it


class Losses(msgspec.Struct, frozen=True):
    """What the losses of one run say of trainings that differ in these axes alone, at one batch size.

    `worse`: (axis, value) → why it is not recommended; `judged`: all (axis, value) of which the losses say something.
    """

    run_id: str
    batch_size: Scalar
    horizon_items: float
    learning_rate: LearningRates | None
    worse: Mapping[tuple[str, str], str]
    judged: frozenset[tuple[str, str]]
    notes: tuple[str, ...]  # what these losses cannot say


def losses_of(place: Place, readings: Sequence[Measured], budget: list[int]) -> list[Losses]:
    """Return what the newest runs say that compared trainings of one model on one device.

    `readings`: of that model and device. `budget`: bytes of records that may still be read; what is read is taken off.
    """
    found = []
    for run_id in _comparing(readings)[:_MOST_RUNS]:
        entry = find(place, run_id)
        size = entry.path.stat().st_size
        if size > min(budget[0], _MOST_BYTES):
            continue
        budget[0] -= size
        summary = summarize(entry)
        ours = {one.case_id for one in readings}
        groups = convergence(summary, read_curves(summary))
        found += [_said(run_id, one) for one in groups if ours & {training.case_id for training in one.trainings}]
    return found


def worse_of(losses: Sequence[Losses]) -> Mapping[tuple[str, str], str]:
    """Return (axis, value) → why it is not recommended, by all of these; where several tell, the first does."""
    return {key: why for one in reversed(losses) for key, why in one.worse.items()}


def _comparing(readings: Sequence[Measured]) -> list[str]:
    """Return the runs, newest first, that hold two Cases which differ in AXES alone."""
    cases = {one.case_id: one.case for one in readings}
    alike = Counter(map(_all_but_learning, cases.values()))
    comparable = {case_id for case_id, case in cases.items() if alike[_all_but_learning(case)] > 1}
    seen: dict[tuple[str, str], set[str]] = {}
    for one in readings:
        if one.case_id in comparable:
            seen.setdefault((one.run_id, _all_but_learning(one.case)), set()).add(one.case_id)
    runs = dict.fromkeys(run_id for (run_id, _), cases in seen.items() if len(cases) > 1)
    return list(runs)[::-1]


@once_a_case
def _all_but_learning(case: Case) -> str:
    return str(sorted((name, value) for name, value in case.configuration.items() if name not in AXES))


def _said(run_id: str, one: Convergence) -> Losses:
    judged = set(_of_precisions(one)) | {
        ("optimizer", s.optimizer) for group in one.optimizers for s in group.standings
    }
    rates = max(one.learning_rates, key=lambda rates: len(rates.tried), default=None)
    worse = {
        **_worse_precisions(one),
        **{key: why for group in one.optimizers for key, why in _worse_optimizers(group)},
    }
    return Losses(run_id, one.batch_size, one.horizon_items, rates, worse, frozenset(judged), one.notes)


def _of_precisions(one: Convergence) -> Iterator[tuple[str, str]]:
    for effect in one.precisions:
        yield "precision", effect.against
        if effect.verdict != Sameness.UNCLEAR:
            yield "precision", effect.precision


def _worse_precisions(one: Convergence) -> Mapping[tuple[str, str], str]:
    found = {}
    for effect in one.precisions:
        if effect.verdict != Sameness.DIFFERENT:
            continue
        if effect.difference is None:
            found["precision", effect.precision] = f"precision {effect.precision}: its loss diverges"
        elif effect.difference > 0.0:
            more = f"{100 * effect.difference:.2g} % above that of {effect.against}"
            found["precision", effect.precision] = f"precision {effect.precision}: its loss ends {more}"
    return found


def _worse_optimizers(group: Optimizers) -> Iterator[tuple[tuple[str, str], str]]:
    best = group.standings[0]
    for one in group.standings[1:]:
        ends, least = one.loss_end, best.loss_end
        if one.behaviour in UNSTABLE:
            yield ("optimizer", one.optimizer), f"optimizer {one.optimizer}: its loss rises or diverges"
        elif ends is not None and least is not None and (ends.low or 0.0) > (least.high or math.inf):
            more = f"{ends.value:.3g}, that of {best.optimizer} at {least.value:.3g}"
            yield ("optimizer", one.optimizer), f"optimizer {one.optimizer}: its loss ends at {more}"
