"""The final round: the best few and the present settings in interleaved full trials, so that drift affects all alike.

The search chose its finalists for what they said, and the best of many looks better than it is; only what this round
measures is reported. Rounds are pairs: each gives one ratio of a finalist to the present settings.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence

from torchstone.core.figures import figures
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Status, Trial, estimation_trials, replicates, undisturbed
from torchstone.core.stats.interval import over_trials
from torchstone.execution.controller.active_run import ActiveRun, OutOfTime
from torchstone.workflows.tune.scoring import shortfall, value_of
from torchstone.workflows.tune.space import Space

_LEVEL = 0.95


def run_rounds(
    cases: Sequence[Case], spec: TuneSpec, open_run: ActiveRun, seed: int, recorded: Iterable[Trial] = ()
) -> dict[str, list[Trial]]:
    """Take `spec.final_trials` rounds of every Case, in random order within a round; return the trials by Case id.

    The first round keeps the order of `cases`, the search's best first: where the time that was given is over before it
    is, what was measured is the answer. `recorded`: those of a run that goes on are reused, not taken again.
    """
    whole = (t for t in replicates(recorded) if t.outcome.status != Status.INTERRUPTED)
    done = {(t.case_id, t.number): t for t in whole}
    found: dict[str, list[Trial]] = {case.case_id: [] for case in cases}
    dice = random.Random(seed)
    try:
        for number in range(spec.final_trials):
            order = list(cases)
            if number:
                dice.shuffle(order)
            for case in order:
                trial = done.get((case.case_id, number))
                if trial is None:
                    open_run.add(case)
                    trial = open_run.take(case, number)
                found[case.case_id].append(trial)
    except OutOfTime:
        if open_run.session.procedure.within_s is None or not any(found.values()):
            raise  # `resume` goes on; who said how long it may take in all has the rounds that there are
    return found


def ranked(found: Mapping[str, Sequence[Trial]], spec: TuneSpec) -> list[str]:
    """Return the ids of Cases of which every trial ended well and kept to the constraints, best first."""
    space = Space(spec)
    present = space.present()
    other = present.case_id if present is not None and not space.keeps_the_batch(present) else None
    worth = {case_id: worth_of(trials, spec) for case_id, trials in found.items() if case_id != other}
    return sorted((c for c, value in worth.items() if value is not None), key=lambda c: worth[c] or 0.0, reverse=True)


def worth_of(trials: Sequence[Trial], spec: TuneSpec) -> float | None:
    """Return the geometric mean of what the trials of a Case are worth; None where one failed or missed a limit."""
    logs: list[float] = []
    used = {trial.trial_id for trial in estimation_trials(trials)}
    for trial in trials:
        values = figures(trial).values
        value = value_of(values, spec.objective)
        if trial.outcome.status != Status.OK or value is None or shortfall(values, spec) is not None:
            return None
        if trial.trial_id in used:
            logs.append(math.log(value))
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def gain(better: Sequence[Trial], than: Sequence[Trial], spec: TuneSpec) -> Estimate | None:
    """Return the ratio of two Cases' worth with its interval over rounds (above 1: `better` is); None without a pair.

    A round is a pair taken within minutes, so that slow drift cancels in its ratio (Kalibera & Jones, ISMM 2013). One
    that other programs disturbed is left out, where enough others are there.
    """
    ratios: list[float] = []
    pairs = list(zip(better, than, strict=False))
    kept = undisturbed([one.disturbed or other.disturbed for one, other in pairs])
    for one, other in itertools.compress(pairs, kept):
        a, b = (value_of(figures(t).values, spec.objective) for t in (one, other))
        if a is not None and b is not None and one.outcome.status == other.outcome.status == Status.OK:
            ratios.append(a / b)
    if not ratios:
        return None
    value, low, high, method = over_trials(ratios, _LEVEL)
    note = None if len(ratios) > 1 else "one round: no interval"
    method = f"{method}, ratios of rounds"
    return Estimate(value, low, high, _LEVEL, "ratio", method, len(ratios), len(ratios), note=note)
