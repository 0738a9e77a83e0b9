"""The answer of a stored A/B comparison, computed again from the turns in its record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torchstone.core.schema.case import Case
from torchstone.core.schema.comparison import Comparison, Judgement, judge
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status, Trial
from torchstone.core.stats.nested import Location
from torchstone.workflows.ab.pair import items_of, location_of, shift_of
from torchstone.workflows.ab.sequential_test import SequentialTest, TestLook

_ROUNDING = 1e-9  # relative


def faults(run: Run) -> Iterator[str]:
    """Yield in a line each what the comparison of a run says, and its record does not.

    The ratio follows from the pairs; its interval, of which the record does not tell at which look it was drawn, may
    not be narrower than where all false alarms were spent on one look; the verdict follows from the interval and the
    margin.
    """
    found, rules = run.comparison, run.head.ab
    if found is None or rules is None:
        if found is not None:
            yield "comparison: the run has no rules for one"
        elif rules is not None and run.end is not None:
            yield "comparison: missing, though the run ended"
        return
    if found.margin != rules.margin:
        yield f"comparison: its margin is {found.margin:g}, the rules of the run say {rules.margin:g}"
    try:
        look = _look(run, found)
    except (ValueError, ArithmeticError, TypeError, LookupError) as fault:  # values that no process can have sent
        yield f"comparison: nothing can be computed from its turns ({fault})"
        return
    if found.ratio is None:
        yield from _of_none(run, found, look)
    elif look is None:
        yield "comparison: its record has too few pairs for a ratio"
    else:
        yield from _of_ratio(found, look, rules.false_alarms)


def _of_none(run: Run, found: Comparison, look: TestLook | None) -> Iterator[str]:
    """Yield what is wrong with a comparison that has no ratio."""
    failed = [trial for trial in run.trials if trial.outcome.status not in (Status.OK, Status.SKIPPED)]
    if found.verdict == Judgement.NOT_COMPARABLE:
        if not failed:
            yield "comparison: not comparable, but no process of it failed"
    elif found.verdict != Judgement.UNCLEAR:
        yield f"comparison: verdict {found.verdict} without a ratio"
    elif look is not None:
        yield f"comparison: without a ratio, the turns in the record give {look.value:.6g}"


def _of_ratio(found: Comparison, look: TestLook, false_alarms: float) -> Iterator[str]:
    ratio = found.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        yield "comparison: its ratio has no interval"
        return
    if not math.isclose(ratio.value, look.value, rel_tol=_ROUNDING):
        yield f"comparison: ratio {ratio.value:.6g}, the turns in the record give {look.value:.6g}"
    if ratio.trials != look.pairs:
        yield f"comparison: {ratio.trials} pairs, the record has {look.pairs}"
    if not math.isclose(ratio.level, 1.0 - false_alarms, rel_tol=_ROUNDING):
        yield f"comparison: level {ratio.level:g}, the rules of the run say {1.0 - false_alarms:g}"
    if ratio.low > look.low * (1.0 + _ROUNDING) or ratio.high < look.high * (1.0 - _ROUNDING):
        told, narrowest = (f"[{low:.6g}, {high:.6g}]" for low, high in ((ratio.low, ratio.high), (look.low, look.high)))
        yield f"comparison: its interval {told} is narrower than the record allows: {narrowest}"
    verdict = judge(ratio.low, ratio.high, found.margin, higher_is_better=False) if ratio.low > 0.0 else None
    if found.verdict not in (verdict, Judgement.NOT_COMPARABLE):
        yield f"comparison: verdict {found.verdict}, its interval and margin give {verdict}"


def _look(run: Run, found: Comparison) -> TestLook | None:
    """Return what all pairs of a record say, with the narrowest interval that the rules allow."""
    rules = run.head.ab
    if rules is None:
        return None
    cases = {case.case_id: case for case in run.head.plan.cases}
    sides = [cases[side.case_id] for side in (found.baseline, found.candidate)]
    test, template = SequentialTest(found.margin, rules.false_alarms), object()
    for pair in _pairs(run.trials):
        if pair[0].facts.template != template:
            template = pair[0].facts.template
            test.new_template()
        if (location := _location(sides, pair)) is not None:
            test.add(location.value, location.error)
    return test.look(1.0)


def _pairs(trials: Sequence[Trial]) -> list[tuple[Trial, Trial]]:
    """Return both trials of each pair, in the order in which the pairs were taken."""
    found: dict[object, dict[object, Trial]] = {}
    for trial in trials:
        found.setdefault(trial.facts.pair, {})[trial.facts.side] = trial
    return [(sides["A"], sides["B"]) for sides in found.values() if "A" in sides and "B" in sides]


def _location(sides: Sequence[Case], pair: tuple[Trial, Trial]) -> Location | None:
    """Return what a pair says: the logarithm of the ratio of times of an item, B ÷ A; None where a side failed."""
    if any(trial.outcome.status != Status.OK for trial in pair):
        return None
    a_s, b_s = (trial.values("turn_time_s") for trial in pair)
    share = math.log(items_of(sides[0]) / items_of(sides[1])) + shift_of(pair)
    return location_of([math.log(b / a) + share for a, b in zip(a_s, b_s, strict=False)])
