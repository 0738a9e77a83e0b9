"""A contest: pairs of processes until it is known whether B differs from A, or the budget is spent.

Both sides live at once and take short turns, so that what drifts hits both (docs/comparing-live.md). The pair is the
replicate: fresh processes, each with its heap moved by luck. Templates are renewed on the way, and the interval sees
what they share.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from torchstone.ab.allocation import couples_for
from torchstone.ab.pair import Contender, Pair
from torchstone.ab.ring import Ring
from torchstone.ab.standing import FEWEST_PAIRS, MOST_TEMPLATES, Look, Standing
from torchstone.ab.turns import TurnPlan, within_bounds
from torchstone.instrument.clock import Clock, system_clock
from torchstone.runner.watcher import Watcher
from torchstone.terms.comparison import Comparison, Judgement, Rules, Side
from torchstone.terms.estimate import Estimate
from torchstone.terms.procedure import Procedure
from torchstone.terms.trial import Status, Trial

__all__ = ["Contender", "Contested", "contest"]

METHOD = "random-effects mean of pair log-ratios, pairs nested in templates, sequential"
_TEMPLATES_SHARE = 0.2  # of the budget may go into starting templates
_WARM_UP_S = 0.5
_FAILED, _FAILED_SHARE = 3, 0.1  # so many pairs, in a row or as this share of all: a side fails by no accident
_PATIENCE_S, _PATIENCE = 60.0, 2.0  # a turn may take so long, or so many times the budget


class Contested(msgspec.Struct, frozen=True):
    """How it ended. `trials`: two a pair, with the facts side, pair and template."""

    comparison: Comparison
    trials: tuple[Trial, ...]
    pairs: int
    templates: int
    elapsed_s: float
    stopped_because: str  # settled, budget, failed


class Progress(msgspec.Struct, frozen=True):
    """How far a contest is, told after every pair."""

    pairs: int
    templates: int
    elapsed_s: float
    last: Look | None


def contest(
    a: Contender,
    b: Contender,
    rules: Rules,
    procedure: Procedure,
    watcher: Watcher | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
    keep: Callable[[Trial], None] = lambda _: None,
) -> Contested:
    """Compare B with A, which is the baseline, live on this machine.

    `keep` is given every trial as soon as it is taken. Nothing is raised for a side that fails: the comparison is
    then not_comparable, and says how it ended.
    """
    began_s = system_clock()
    models = {side.folder: [one.case.workload.model for one in (a, b)] for side in (a, b)}
    with Ring(models, in_turns(procedure), watcher) as ring:
        return Bout(a, b, rules, ring, began_s, tell, keep).fight()


def in_turns(procedure: Procedure) -> Procedure:
    """Return a Procedure for pairs that take turns: gauges would count the other side among the neighbours."""
    return msgspec.structs.replace(
        procedure, telemetry_period_s=0.0, warmup_budget_s=min(procedure.warmup_budget_s, _WARM_UP_S)
    )


class Arena(Protocol):
    """What a bout needs of a Ring."""

    start_s: float

    def renew(self) -> None:
        """Start new templates."""

    def take(self, sides: Sequence[Contender], number: int, plan: TurnPlan, dice: random.Random, template: int) -> Pair:
        """Take one pair."""


class Bout:
    """The course of one contest. `began_s`: when its budget began to run."""

    def __init__(
        self,
        a: Contender,
        b: Contender,
        rules: Rules,
        ring: Arena,
        began_s: float,
        tell: Callable[[Progress], None] = lambda _: None,
        keep: Callable[[Trial], None] = lambda _: None,
        clock: Clock = system_clock,
    ) -> None:
        self._a, self._b, self._rules = a, b, rules
        self._ring, self._began_s, self._tell, self._keep, self._clock = ring, began_s, tell, keep, clock
        self._standing = Standing(rules.margin, rules.false_alarms)
        self._pairs: list[Pair] = []
        self._costs_s: list[float] = []
        self._templates = self._forked = 0  # pairs of the present template
        self._failures = self._in_a_row = 0

    def fight(self) -> Contested:
        """Take pairs until it is settled, the budget is spent, or too many of them fail."""
        dice, rules = random.Random(self._rules.seed), self._rules
        self._new_template()
        affordable = int(_TEMPLATES_SHARE * rules.budget_s / max(self._ring.start_s, 1e-3))
        planned = max(2, min(MOST_TEMPLATES, affordable))
        while True:
            # Templates are renewed at even shares of the budget, and a pair is only begun if it can end in time.
            due = self._elapsed_s() >= self._templates * rules.budget_s / planned and self._templates < planned
            if due and self._forked:  # one that has no pair yet is as good as new, however long it took to start
                self._new_template()
            pair = self._one_pair(dice)
            if self._in_a_row >= _FAILED or self._failures >= max(_FAILED, _FAILED_SHARE * len(self._pairs)):
                return self._ended("failed", pair)
            if self._standing.due() and (look := self._standing.look(self._progress())) is not None and look.settled:
                return self._ended("settled")
            if self._elapsed_s() + self._costs_s[-1] >= rules.budget_s and len(self._pairs) >= FEWEST_PAIRS:
                self._standing.look(1.0)
                return self._ended("settled" if self._settled() else "budget")

    def _new_template(self) -> None:
        self._ring.renew()
        self._templates, self._forked = self._templates + 1, 0
        self._standing.new_template()

    def _one_pair(self, dice: random.Random) -> Pair:
        began_s = self._clock()
        pair = self._ring.take((self._a, self._b), len(self._pairs), self._plan(), dice, self._templates)
        self._costs_s.append(self._clock() - began_s)
        self._pairs.append(pair)
        self._forked += 1
        for trial in pair.trials:
            self._keep(trial)
        location = pair.location if all(trial.outcome.status == Status.OK for trial in pair.trials) else None
        self._failures += location is None
        self._in_a_row = self._in_a_row + 1 if location is None else 0
        if location is not None:
            self._standing.add(location.value, location.error)
        self._tell(Progress(len(self._pairs), self._templates, self._elapsed_s(), self._standing.last))
        return pair

    def _plan(self) -> TurnPlan:
        patience_s = max(_PATIENCE_S, _PATIENCE * self._rules.budget_s)
        sound = [(pair, cost_s) for pair, cost_s in zip(self._pairs, self._costs_s, strict=True) if pair.logs]
        if not sound:
            return TurnPlan(patience_s=patience_s)
        turns_s = [sum(sum(t.values("turn_time_s")) for t in pair.trials) for pair, _ in sound]
        couple_s = min(spent_s / len(pair.logs) for spent_s, (pair, _) in zip(turns_s, sound, strict=True))
        start_s = min(cost_s - spent_s for spent_s, (_, cost_s) in zip(turns_s, sound, strict=True))
        couples = couples_for([pair for pair, _ in sound], start_s, couple_s)
        affordable = within_bounds(self._rules.budget_s / (2.0 * FEWEST_PAIRS) / max(couple_s, 1e-6))
        return TurnPlan(couples=min(couples, affordable) if couples is not None else None, patience_s=patience_s)

    def _elapsed_s(self) -> float:
        return self._clock() - self._began_s

    def _progress(self) -> float:
        return self._elapsed_s() / self._rules.budget_s

    def _settled(self) -> bool:
        return self._standing.last is not None and self._standing.last.settled

    def _ended(self, reason: str, failed: Pair | None = None) -> Contested:
        trials = tuple(trial for pair in self._pairs for trial in pair.trials)
        comparison = self._comparison(failed, sum(len(trial.values("step_time_s")) for trial in trials))
        return Contested(comparison, trials, len(self._pairs), self._templates, self._elapsed_s(), reason)

    def _comparison(self, failed: Pair | None, steps: int) -> Comparison:
        sides = [Side(side.label, "", side.case.case_id) for side in (self._a, self._b)]
        look, ratio, why = self._standing.last, None, None
        if failed is not None:
            why = _why(sides, failed)
        elif look is not None:
            level = 1.0 - self._rules.false_alarms
            ratio = Estimate(look.value, look.low, look.high, level, "ratio", METHOD, look.pairs, steps)
        verdict = look.verdict if look is not None else Judgement.UNCLEAR
        if failed is not None:
            verdict = Judgement.NOT_COMPARABLE
        return Comparison(
            sides[0], sides[1], "step_time", ratio, verdict, self._rules.margin, why=why,
            trials_to_settle=self._standing.pairs_to_settle(),
        )  # fmt: skip


def _why(sides: Sequence[Side], failed: Pair) -> str:
    """Return how a pair failed: the side that ended badly, and how."""
    ends = [(side, trial.outcome) for side, trial in zip(sides, failed.trials, strict=True)]
    bad = [(s, o) for s, o in ends if o.status not in (Status.OK, Status.SKIPPED)]
    if not bad:
        return "no turn was taken"
    return "; ".join(f"{side.label} {outcome.status}: {outcome.message or 'no message'}" for side, outcome in bad)
