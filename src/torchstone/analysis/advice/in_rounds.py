"""The cases of a run compared with each other, round by round, on one figure.

Every statement about two cases of one run comes from here: which is fastest, what is not significantly different, how
many times faster one is. In a round each case is measured once, so what slows the machine for a while drops out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.trial import ended_well, estimation_trials
from torchstone.core.stats.best_of_many import pair_level
from torchstone.core.stats.logs import from_log
from torchstone.core.stats.moderated import Prior
from torchstone.core.stats.paired import Contrast, moderated, prior_of


class InRounds:
    """The cases of one run by their ids. `figure`: a positive figure of a trial, such as the throughput."""

    def __init__(self, cases: Sequence[CaseSummary], figure: str = "throughput") -> None:
        self._logs = {case.case_id: _logs(case, figure) for case in cases}

    @cached_property
    def level(self) -> float:
        """The level of each of all comparisons, so that in 95 % of runs no equal cases are found different."""
        return pair_level(sum(bool(logs) for logs in self._logs.values()))

    def ratio(self, one: str, other: str, level: float | None = None) -> tuple[float, float, float] | None:
        """Return (value, low, high) of one case ÷ other; None where they have fewer than two rounds in common.

        `level`: of this comparison alone; None: so that all comparisons of the run hold together.
        """
        found = self._contrast(one, other, level)
        if found is None:
            return None
        return from_log(found.log), from_log(found.log - found.half), from_log(found.log + found.half)

    def _contrast(self, one: str, other: str, level: float | None) -> Contrast | None:
        a, b = self._logs.get(one, {}), self._logs.get(other, {})
        return moderated(a, b, self._prior, level or self.level)

    @cached_property
    def _prior(self) -> Prior | None:
        return prior_of(list(self._logs.values()))


def _logs(case: CaseSummary, figure: str) -> dict[int, float]:
    """Return the logarithm of the figure in each round; what only probed it, or failed, is no part of one."""
    return {
        trial.number: math.log(value) for trial in estimation_trials(ended_well(case.trials))
        if (value := trial.figures.values.get(figure)) is not None and value > 0.0
    }  # fmt: skip
