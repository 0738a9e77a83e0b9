"""The cases of a run compared with each other, round by round, on one figure.

Every statement about two cases of one run comes from here: which is fastest, what is not significantly different, how
many times faster one is. In a round each case is measured once, so what slows the machine for a while drops out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import ended_well, estimation_trials
from torchstone.core.stats.best_of_many import pair_level
from torchstone.core.stats.comparing import Difference, by_rounds, difference, log_mean, ratio_interval, run_mean
from torchstone.core.stats.moderated import Prior

PAIRED = "t on the log ratios of rounds"


class InRounds:
    """Cases of one run by their ids. `figure`: a positive figure of a trial, such as the throughput."""

    def __init__(
        self,
        cases: Sequence[CaseSummary],
        figure: str = "throughput",
        logs: Mapping[str, RoundLogs] | None = None,
        prior: Prior | None = None,
    ) -> None:
        """`logs`, `prior`: in place of the cases', where only these are read (recommend)."""
        self._round_logs = {case.case_id: _round_logs(case, figure) for case in cases} if logs is None else logs
        self._prior = next((case.pair_priors.get(figure) for case in cases), prior)

    @cached_property
    def level(self) -> float:
        """The level of each of all comparisons, so that in 95 % of runs no equal cases are found different."""
        return pair_level(sum(bool(taken.logs) for taken in self._round_logs.values()))

    def ratio(self, one: str, other: str, level: float | None = None) -> tuple[float, float, float] | None:
        """Return (value, low, high) of one case ÷ other, as `compare --over` does; None where one has a trial alone.

        `level`: of this comparison alone; None: so that all comparisons of the run hold together.
        """
        found = self.difference(one, other)
        return None if found is None else found.ratio(level or self.level)

    def difference(self, one: str, other: str) -> Difference | None:
        """Return one case less other, of logs; None where one has a trial alone."""
        a, b = self._round_logs.get(one, _NONE), self._round_logs.get(other, _NONE)
        sides = (tuple(logs.items()) for logs in (a.logs, b.logs, b.templates))
        return _difference(*sides, self._prior)


@lru_cache(maxsize=4096)  # the answer, the marks, the choice and the notes of a page ask for the same pairs
def _difference(
    one: tuple[tuple[int, float], ...],
    other: tuple[tuple[int, float], ...],
    templates: tuple[tuple[int, Scalar], ...],
    prior: Prior | None,
) -> Difference | None:
    found = by_rounds(dict(one), dict(other), prior, dict(templates))
    if found is None and min(len(one), len(other)) > 1:
        found = difference(run_mean([log for _, log in other]), run_mean([log for _, log in one]))
    return found


class RoundLogs(NamedTuple):
    """The logarithm of a figure in each round, and the template of its trial; none where not all are known."""

    logs: Mapping[int, float]
    templates: Mapping[int, Scalar]


_NONE = RoundLogs({}, {})


def _round_logs(case: CaseSummary, figure: str) -> RoundLogs:
    """Return the trials of a Case; what only probed it, or failed, is no part of a round."""
    used = estimation_trials(ended_well(case.trials))
    return round_logs((t.number, t.facts.template, t.figures.values.get(figure)) for t in used)


def round_logs(trials: Iterable[tuple[int, Scalar, float | None]]) -> RoundLogs:
    """Return those of trials that have the figure: of each its round, its template (None: not known) and the figure."""
    having = [(number, template, math.log(value)) for number, template, value in trials if value and value > 0.0]
    templates = {number: template for number, template, _ in having if template is not None}
    logs = {number: log for number, _, log in having}
    return RoundLogs(logs, templates if len(templates) == len(logs) else {})


BEST, SAME = "*", "="


def marks(
    column: Sequence[Estimate | None], *, higher: bool, cases: Sequence[str] = (), rounds: InRounds | None = None
) -> list[str]:
    """Return BEST for the best value, SAME where the interval of the ratio to it holds 1, "" for the others.

    `cases`: the ids of the column's Cases, and `rounds` how they compare on this figure, where one run measured them in
    turn. A column with fewer than two values has no best, and one whose interval is too wide to be shown has no mark.
    """
    column = [None if e is not None and e.is_wide else e for e in column]
    values = [e.value for e in column if e is not None]
    if len(values) < 2:
        return [""] * len(column)
    top = (max if higher else min)(values)
    place = next(at for at, e in enumerate(column) if e is not None and e.value == top)
    best = column[place]

    def same(at: int, one: Estimate) -> bool:
        paired = rounds.ratio(cases[at], cases[place]) if rounds is not None else None
        return paired[1] <= 1.0 <= paired[2] if paired is not None else best is not None and _same(one, best)

    return ["" if e is None else BEST if at == place else SAME if same(at, e) else "" for at, e in enumerate(column)]


def _same(a: Estimate, b: Estimate) -> bool:
    means = [log_mean(e.value, e.low, e.high, e.trials, e.level) for e in (a, b)]
    if means[0] is None or means[1] is None:
        return a.value == b.value
    low, high = ratio_interval(means[0], means[1])
    return low <= 1.0 <= high
