"""An experiment: pairs of processes until it is known whether B differs from A, or the budget is spent.

Both sides live at once and take short turns, so that what drifts hits both (docs/comparing-live.md). The pair is the
replicate: fresh processes, each with a random heap offset. Templates are renewed on the way, and the interval sees
what they share.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from torchstone.core.schema.advice import Statement, Value
from torchstone.core.schema.comparison import Comparison, Judgement, OtherThreads, Rules, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status, Trial
from torchstone.execution.timing.clock import Clock, system_clock
from torchstone.workflows.ab.interleaving import TurnPlan, turn_s_of
from torchstone.workflows.ab.pair import Pair, SessionPool, Spans, Variant
from torchstone.workflows.ab.sequential_test import (
    MOST_TEMPLATES,
    SequentialTest,
    Take,
    TestLook,
    forecast,
    reserved_s,
    tried,
    with_one_thread,
)
from torchstone.workflows.ab.timetable import FEWEST_PAIRS, Timetable, pace_of, templates_for

__all__ = ["ExperimentResult", "Variant", "compare_live"]

METHOD = "random-effects mean of pair log-ratios, pairs nested in templates, sequential"
_WARM_UP_S = 0.1
_FAILED, _FAILED_SHARE = 3, 0.1  # so many pairs, in a row or as this share of all: a side fails by no accident
_PATIENCE_S, _PATIENCE = 60.0, 2.0  # a turn may take so long, or so many times the budget


class TimeSpent(msgspec.Struct, frozen=True):
    """Where the time of a comparison went, in seconds.

    Before its first pair; starting further templates; in pairs (those with other threads, too) until both sides were
    warm; their turns, and of these what was measured; until the processes had ended.
    """

    before_s: float
    renewing_s: float
    warming_s: float
    turns_s: float
    measured_s: float
    ending_s: float


class ExperimentResult(msgspec.Struct, frozen=True):
    """How it ended. `trials`: two a pair, with the facts side, pair and template.

    `needed_s`: what the fewest pairs take, where the budget was too short for them.
    """

    comparison: Comparison
    trials: tuple[Trial, ...]
    pairs: int
    templates: int
    elapsed_s: float
    stopped_because: str  # settled, budget, failed
    spent: TimeSpent | None = None
    needed_s: float | None = None


class ExperimentProgress(msgspec.Struct, frozen=True):
    """How far an experiment is, told after every pair."""

    pairs: int
    templates: int
    elapsed_s: float
    last: TestLook | None


def compare_live(
    a: Variant,
    b: Variant,
    rules: Rules,
    procedure: Procedure,
    *,
    strict: bool = False,
    try_one_thread: bool = False,
) -> ExperimentResult:
    """Compare B with A, which is the baseline, live on this machine. `strict`, `try_one_thread`: see Experiment.

    A side that fails raises nothing: the comparison is then not_comparable, and says how it ended.
    """
    began_s = system_clock()
    models = {side.folder: [one.case.workload.model for one in (a, b)] for side in (a, b)}
    with SessionPool(models, in_turns(procedure)) as pool:
        experiment = Experiment(a, b, rules, pool, began_s, strict=strict, try_one_thread=try_one_thread)
        return experiment.run()


def in_turns(procedure: Procedure) -> Procedure:
    """Return a Procedure for pairs that take turns: gauges would count the other side among the neighbours."""
    return msgspec.structs.replace(
        procedure, telemetry_period_s=0.0, warmup_budget_s=min(procedure.warmup_budget_s, _WARM_UP_S)
    )


def as_ab_does(how: Procedure) -> Procedure:
    """Return a Procedure with what `ab` sets where nobody says otherwise: huge pages, pinned threads."""
    heap = "huge" if how.heap == "fixed" else how.heap
    return msgspec.structs.replace(
        how, heap=heap, pin_threads=how.pin_threads is not False and how.cpu_affinity is None
    )


class PairRunner(Protocol):
    """What a experiment needs of a SessionPool."""

    @property
    def start_s(self) -> float:
        """What a renewal costs."""

    def renew(self) -> None:
        """Start new templates."""

    def take(self, sides: Sequence[Variant], number: int, plan: TurnPlan, dice: random.Random, template: int) -> Pair:
        """Take one pair."""


class Experiment:
    """The course of one experiment. `began_s`: when its budget began to run; `strict`, `say`: see Timetable.

    `try_one_thread`: take a few pairs with one thread a side where all threads leave it unclear.
    """

    def __init__(
        self,
        a: Variant,
        b: Variant,
        rules: Rules,
        pool: PairRunner,
        began_s: float,
        tell: Callable[[ExperimentProgress], None] = lambda _: None,
        keep: Callable[[Trial], None] = lambda _: None,
        clock: Clock = system_clock,
        *,
        strict: bool = False,
        say: Callable[[str], None] = lambda _: None,
        try_one_thread: bool = False,
    ) -> None:
        self._sides, self._rules, self._pool = (a, b), rules, pool
        self._tell, self._keep, self._clock, self._try_one_thread = tell, keep, clock, try_one_thread
        self._time = Timetable(rules.budget_s, began_s, clock, strict=strict, say=say)
        self._standing = SequentialTest(rules.margin, rules.false_alarms)
        self._dice = random.Random(rules.seed)
        self._pairs: list[Pair] = []
        self._beside: list[Pair] = []  # with other threads
        self._templates = self._forked = 0  # pairs of the present template
        self._failures = self._in_a_row = 0
        self._before_s = self._renewing_s = 0.0

    def run(self) -> ExperimentResult:
        """Take pairs until it is settled, the budget is spent, or too many of them fail."""
        self._new_template()
        self._before_s = self._time.elapsed_s
        planned = templates_for(self._pool.start_s, self._rules.budget_s, MOST_TEMPLATES)
        self._time.renewing_s = (planned - 1) * self._pool.start_s
        while self._time.has_room(self._pairs):
            # Templates are renewed at even shares of the budget.
            due = self._time.elapsed_s >= self._templates * self._time.budget_s / planned and self._templates < planned
            # One that has no pair yet is as good as new, however long it took to start.
            if due and self._forked and self._time.renewing_s > 0.0:
                self._time.renewing_s -= self._pool.start_s
                self._new_template()
            pair = self._one_pair()
            if self._in_a_row >= _FAILED or self._failures >= max(_FAILED, _FAILED_SHARE * len(self._pairs)):
                return self._ended("failed", pair)
            progress = self._time.progress
            if self._standing.due(progress) and (look := self._standing.look(progress)) is not None:
                if look.settled:
                    return self._ended("settled")
                self._reserve()
            if not pair.logs and _ended_well(pair):
                break  # it was warm too late for a single turn
        self._standing.look(1.0)
        return self._ended("settled" if self._settled() else "budget")

    def _new_template(self) -> None:
        began_s = self._clock()
        self._pool.renew()
        self._templates, self._forked = self._templates + 1, 0
        self._renewing_s += self._clock() - began_s if self._templates > 1 else 0.0
        self._standing.new_template()

    def _one_pair(self) -> Pair:
        pair = self._pool.take(self._sides, len(self._pairs), self._plan(), self._dice, self._templates)
        in_time = self._time.ready_by_s is None or self._clock() < self._time.ready_by_s
        self._pairs.append(pair)
        self._forked += 1
        for trial in pair.trials:
            self._keep(trial)
        location = pair.location if _ended_well(pair) else None
        failed = location is None and in_time and bool(pair.logs or not _ended_well(pair))
        self._failures += failed
        self._in_a_row = self._in_a_row + 1 if failed else 0
        if location is not None:
            self._standing.add(location.value, location.error)
        self._tell(ExperimentProgress(len(self._pairs), self._templates, self._time.elapsed_s, self._standing.last))
        return pair

    def _plan(self) -> TurnPlan:
        patience_s = max(_PATIENCE_S, _PATIENCE * self._rules.budget_s)
        decide = partial(self._time.decide, tuple(self._pairs))
        turn_s = turn_s_of([side.case for side in self._sides])
        return TurnPlan(turn_s=turn_s, patience_s=patience_s, decide=decide, ready_by_s=self._time.ready_by_s)

    def _reserve(self) -> None:
        """Keep some time for pairs with one thread, where what is left of it will not settle this."""
        self._time.reserved_s = 0.0
        pace, more = pace_of(self._pairs), self._standing.pairs_to_settle()
        trials = [trial for pair in self._pairs for trial in pair.trials]
        if not self._try_one_thread or pace is None or with_one_thread(self._sides, trials) is None:
            return
        if more is None or more > self._time.left_s / pace.pair_s(len(self._pairs[-1].logs)):
            self._time.reserved_s = reserved_s(pace, self._time.budget_s)

    def _other_threads(self) -> OtherThreads | None:
        """Take a few pairs with one thread a side in the time that was reserved for them."""
        fewer = with_one_thread(self._sides, [trial for pair in self._pairs for trial in pair.trials])
        kept_s, self._time.reserved_s = self._time.reserved_s, 0.0
        if fewer is None or not kept_s or not self._standing.last or self._settled():
            return None
        take: Take = lambda sides, plan: self._pool.take(sides, len(self._pairs), plan, self._dice, self._templates)
        self._beside = tried(fewer, take, self._time.left_s)
        found = forecast(self._beside, self._rules, self._standing.last.value, self._before_s)
        more = self._standing.pairs_to_settle()
        longer_s = self._time.elapsed_s * (1.0 + more / len(self._pairs)) if more is not None else math.inf
        return found if found is not None and found.within_s < longer_s else None

    def _settled(self) -> bool:
        return self._standing.last is not None and self._standing.last.settled

    def _ended(self, reason: str, failed: Pair | None = None) -> ExperimentResult:
        trials = tuple(trial for pair in self._pairs for trial in pair.trials)
        steps = sum(len(trial.values("step_time_s")) for trial in trials)
        comparison = self._comparison(failed, steps, self._other_threads() if reason == "budget" else None)
        taken = [pair.spans for pair in (*self._pairs, *self._beside)]
        sums = [math.fsum(getattr(spans, name) for spans in taken) for name in Spans.__struct_fields__]
        warm_s, turns_s, measured_s, end_s = sums
        nothing_said = self._standing.last is None
        spent = TimeSpent(self._before_s, self._renewing_s, warm_s, turns_s, measured_s, end_s)
        return ExperimentResult(
            comparison,
            trials,
            len(self._pairs),
            self._templates,
            self._time.elapsed_s,
            reason,
            spent,
            self._time.needed_s if nothing_said else None,
        )

    def _comparison(self, failed: Pair | None, steps: int, other: OtherThreads | None) -> Comparison:
        sides = [Side(side.label, "", side.case.case_id) for side in self._sides]
        look, ratio, why = self._standing.last, None, None
        if failed is not None:
            why = _why(sides, failed)
        elif look is not None:
            level = 1.0 - self._rules.false_alarms
            ratio = Estimate(look.value, look.low, look.high, level, "ratio", METHOD, look.pairs, steps)
        else:
            why = self._too_few()
        verdict = look.verdict if look is not None else Judgement.UNCLEAR
        if failed is not None:
            verdict = Judgement.NOT_COMPARABLE
        return Comparison(
            sides[0],
            sides[1],
            "step_time_mean",
            ratio,
            verdict,
            self._rules.margin,
            why=why,
            trials_to_settle=self._standing.pairs_to_settle(),
            with_other_threads=other,
        )

    def _too_few(self) -> Statement:
        """Return why nothing can be said: how many pairs there was time for, and what would be enough."""
        taken, needed_s = self._standing.pairs, self._time.needed_s
        budget = f"{self._rules.budget_s:g}"
        if not self._pairs:
            return Statement("no_pair", {"budget": budget, "start_s": self._before_s})
        values: dict[str, Value] = {"pairs": taken, "fewest": FEWEST_PAIRS, "budget": budget, "needed_s": needed_s}
        enough = "" if needed_s is None else ".enough"
        return Statement(f"few_pairs{enough}" if taken else f"short{enough}", values)


def _ended_well(pair: Pair) -> bool:
    return all(trial.outcome.status == Status.OK for trial in pair.trials)


def _why(sides: Sequence[Side], failed: Pair) -> Statement:
    """Return how a pair failed: the side that ended badly, and how."""
    ends = [(side, trial.outcome) for side, trial in zip(sides, failed.trials, strict=True)]
    bad = [(s, o) for s, o in ends if o.status not in (Status.OK, Status.SKIPPED)]
    names = (("side", "status", "message"), ("other", "other_status", "other_message"))
    values: dict[str, str] = {}
    for (side, outcome), places in zip(bad, names, strict=False):
        values |= zip(places, (side.label, str(outcome.status), outcome.message or "no message"), strict=True)
    return Statement(("nothing_measured", "side_failed", "sides_failed")[len(bad)], values)
