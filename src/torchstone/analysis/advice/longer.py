"""How long a run would have to be for every throughput to be known as well as was aimed at."""

from __future__ import annotations

import math

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.case import Task
from torchstone.core.schema.trial import Status

_BESIDE = 1.3  # times the trials' own time: templates, imports, what is between trials
_MOST_S = 3600.0  # longer is no advice


def longer(run: RunSummary) -> str | None:
    """Return what to type where the time was over before the intervals were narrow; None where they are.

    The half-width of an interval falls with the root of the trials. Only of a run whose number of trials was open.
    """
    aim = run.procedure.aim
    spent_s = run.total_runtime_s
    if spent_s is None or not run.procedure.in_rounds or run.answer is not None:
        return None
    rates = [case for case in run.cases if case.workload.task != Task.LOADGEN]  # that of a load was asked for
    more = [(case, needed) for case in rates if (needed := _more_s(case, aim)) > 0.0]
    if not more:
        return None
    whole_s = _BESIDE * (spent_s + sum(needed for _, needed in more))
    what = "a throughput is" if len(more) == 1 else f"{len(more)} throughputs are"
    known = f"{what} not known to ±{100 * aim:g} %"
    if whole_s > _MOST_S:
        return f"{known}, and on this machine that would take more than an hour: `torchstone machine check` says why"
    return f"{known}: --within {_rounded(whole_s)} would be about enough"


def _more_s(case: CaseSummary, aim: float) -> float:
    """Return the seconds that further trials of a case would take."""
    rate = case.estimates.get("throughput")
    half = units.half_width(rate.value, rate.low, rate.high) if rate is not None else None
    spent_s = [trial.duration_s or 0.0 for trial in case.trials if trial.outcome.status == Status.OK]
    if half is None or half <= aim or not spent_s:
        return 0.0
    return sum(spent_s) * ((half / aim) ** 2 - 1.0)


def _rounded(seconds: float) -> str:
    return f"{math.ceil(seconds / 60.0)}m"
