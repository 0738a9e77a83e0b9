"""Searchers without a model of ours: everything once, points drawn at random, and optuna's TPE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.search import Point, Probe, ProbeResult, SearchProblem
from torchstone.plugins.protocols import Searcher
from torchstone.plugins.searchers._ledger import Ledger, Search, in_turn, key_of, value_of

# ── grid ─────────────────────────────────────────────────────────────────────────────────────────────────────


class GridSearch(Searcher):
    """Tries all there is: the surest answer, and the dearest."""

    describes = "every setting, in the given order"

    def search(self, brief: SearchProblem) -> Search:
        return in_turn(brief, brief.points)


# ── random ───────────────────────────────────────────────────────────────────────────────────────────────────

# Better than a grid of the same size where few of the axes matter (Bergstra & Bengio, Random search for hyper-parameter
# optimization, JMLR 13, 2012), and the honest mark for any cleverer search.


class RandomSearch(Searcher):
    """Tries points in a seeded random order, until the budget is spent or none is left."""

    describes = "random settings, without repetition"

    def search(self, brief: SearchProblem) -> Search:
        return in_turn(brief, Random(brief.seed).sample(brief.points, len(brief.points)))


# ── optuna ───────────────────────────────────────────────────────────────────────────────────────────────────

# The tree-structured Parzen estimator, for spaces unlike those that the adaptive search knows (Bergstra, Bardenet,
# Bengio & Kégl, Algorithms for hyper-parameter optimization, NeurIPS 2011). Optuna only asks; trials, records and
# `resume` are ours, and nothing is stored by it.

REPEATS = 20  # times it may propose in a row what was measured or is not allowed, before a new point is drawn at random


class Optuna(Searcher):
    """Lets Optuna's TPE sampler choose, among the points that are allowed and new."""

    describes = "Optuna's TPE sampler (needs the extra `search`)"

    def __init__(self, sampler: str = "TPESampler", **options: int) -> None:
        self._sampler, self._options = sampler, options  # benchmarks/search.py has the others

    def search(self, brief: SearchProblem) -> Search:
        ledger, optuna = Ledger(brief), _library()
        sampler = getattr(optuna.samplers, self._sampler)(seed=brief.seed, **self._options)
        for point, readings in _new_points(brief, optuna, sampler):
            if not ledger.open(ledger.mean_cost_s()):
                break
            reading = yield Probe(point, why=self._sampler.removesuffix("Sampler"))
            ledger.write(reading)
            readings.append(reading)
        return ledger.best()


def _new_points(brief: SearchProblem, optuna: Any, sampler: Any) -> Iterator[tuple[Point, list[ProbeResult]]]:
    """Yield points, each new, with a list into which its reading goes."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = {axis: _distribution(optuna, values) for axis, values in brief.axes.items()}
    left = {key_of(point): point for point in brief.points}
    scores: dict[object, float] = {}
    random = Random(brief.seed)
    while left:
        for _ in range(REPEATS):
            trial = study.ask(distributions)
            key = key_of({axis: brief.axes[axis][trial.params[axis]] for axis in brief.axes})
            if key in left:
                break
            if key in scores:
                study.tell(trial, scores[key])
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            trial, key = None, random.choice(list(left))
        point = left.pop(key)
        readings: list[ProbeResult] = []
        yield point, readings
        scores[key] = _score(readings[0], scores)
        if trial is not None:
            study.tell(trial, scores[key])
        else:
            params = {axis: brief.axes[axis].index(value) for axis, value in point.items() if axis in brief.axes}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=scores[key]))


def _score(reading: ProbeResult, scores: Mapping[object, float]) -> float:
    """Return the score for the sampler: a trial that failed or is not allowed is worse than every other."""
    value = value_of(reading)
    if value is None or not reading.allowed:
        return min(scores.values(), default=0.0) - 1.0
    return math.log(value) if value > 0.0 else value


def _distribution(optuna: Any, values: tuple[Scalar, ...]) -> Any:
    """Return a distribution over the places of an axis' values: in order where they are numbers."""
    ordered = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values) and len(values) > 2
    if ordered:
        return optuna.distributions.IntDistribution(0, len(values) - 1)
    return optuna.distributions.CategoricalDistribution(tuple(range(len(values))))


def _library() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingError(
            "searcher optuna needs the library of that name: pip install 'torchstone[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


PLUGINS: Mapping[str, Searcher] = {
    "grid": GridSearch(),
    "random": RandomSearch(),
    "optuna": Optuna(),
}
