"""Goodput: the highest rate of queries whose 99th percentile meets a bound, read from the trials at several rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.procedure import SERVER
from torchstone.core.schema.trial import ended_well, estimation_trials, replicates
from torchstone.core.stats.rate_search import Crossing, LoadReading, crossed
from torchstone.storage.query import TrialRow

_P99 = "query_latency_p99_s"
LEVEL = 0.95
_OF_A_LOAD = ("scenario", "target_qps", "batch_size", "max_wait_s")  # the scenarios of one search differ in these


class Goodput(msgspec.Struct, frozen=True):
    """What was found of one workload. `rate`: samples/s; None where no rate met the bound, or the trials do not tell.

    `valid`: the highest rate at which LoadGen called every replicate VALID, with how many. `lowest`: the lowest rate
    that was measured, and `lowest_p99_s` the 99th percentile there; `lower_unanswered`: a lower one was begun,
    without an answer.
    """

    workload: Workload
    placement: Placement
    configuration: Mapping[str, Scalar]
    bound_s: float
    rate: float | None
    low: float | None
    high: float | None
    level: float
    trials: int
    rates: int
    valid: tuple[float, int] | None
    lowest: float | None
    lowest_p99_s: float | None
    alone_p50_s: float | None
    met_any: bool
    lower_unanswered: bool = False


def goodputs(run: RunSummary) -> tuple[Goodput, ...]:
    """Return the goodput of each workload and setting that a search loaded."""
    return tuple(_of(cases) for cases in _groups(run.cases) if any(case.trials for case in cases))


def load_reading(rate: float, facts: Facts) -> LoadReading:
    """Return what a load at a rate told, from the facts of its trial: nothing of one that failed."""
    late, queries = facts.loadgen_late, facts.loadgen_queries
    known = isinstance(late, int) and isinstance(queries, int)
    return LoadReading(rate, float(late or 0), float(queries or 0)) if known else LoadReading(rate, 0.0, 0.0)


def _usable(trials: Sequence[TrialRow]) -> Sequence[TrialRow]:
    """Return the probes and replicates of a load without those that were disturbed, where enough are left."""
    probes = [trial for trial in trials if not replicates([trial])]
    quiet = [trial for trial in probes if not trial.disturbed]
    return [*(quiet or probes), *estimation_trials(replicates(trials))]


def _groups(cases: Sequence[CaseSummary]) -> Iterator[list[CaseSummary]]:
    """Yield the loads of one workload and setting at all rates, with the scenarios that were measured beside them."""
    found: dict[tuple[object, ...], list[CaseSummary]] = {}
    for case in cases:
        if case.workload.task == Task.LOADGEN:
            rest = {k: v for k, v in case.configuration.items() if k not in _OF_A_LOAD}
            key = (str(case.workload.canonical()), str(case.placement), tuple(sorted(rest.items())))
            found.setdefault(key, []).append(case)
    yield from found.values()


def _of(cases: Sequence[CaseSummary]) -> Goodput:
    served = [case for case in cases if case.configuration["scenario"] == SERVER]
    first = (served or list(cases))[0]
    bound_s = float(first.configuration["latency_bound_s"] or 0.0)
    good = [(_rate(c), t) for c in served for t in _usable(ended_well(c.trials))]
    final = [(rate, t) for rate, t in good if replicates([t])]
    found = crossed([load_reading(rate, t.facts) for rate, t in final], LEVEL)
    if found is None and (rough := crossed([load_reading(rate, t.facts) for rate, t in good])) is not None:
        found = Crossing(rough.x, None, None)  # probes were chosen for what they said: they make no interval
    lowest = min(((rate, t.figures.values.get(_P99)) for rate, t in good), key=lambda one: one[0], default=None)
    met_any = any(load_reading(rate, t.facts).met for rate, t in good)
    return Goodput(
        first.workload,
        first.placement,
        first.configuration,
        bound_s,
        found.x if found is not None and met_any else None,
        found.low if found is not None and met_any else None,
        found.high if found is not None and met_any else None,
        LEVEL,
        len(final),
        len({rate for rate, _ in final}),
        _valid(served),
        lowest[0] if lowest is not None else None,
        lowest[1] if lowest is not None else None,
        _alone_s(cases),
        met_any,
        lowest is not None and any(_rate(c) < lowest[0] for c in served),
    )


def _rate(case: CaseSummary) -> float:
    return float(case.configuration["target_qps"] or 0.0)


def _valid(served: Sequence[CaseSummary]) -> tuple[float, int] | None:
    """Return the highest rate that LoadGen called VALID each time, and how often; a probe counts, too."""
    found = []
    for case in served:
        results = [t.facts.loadgen_result for t in ended_well(case.trials)]
        if results and all(result == "VALID" for result in results):
            found.append((_rate(case), len(results)))
    return max(found, default=None)


def _alone_s(cases: Sequence[CaseSummary]) -> float | None:
    """Return the median latency of a query that is alone: of the closed loop."""
    alone = [case for case in cases if case.configuration["scenario"] == "single_stream"]
    return next((e.value for case in alone if (e := case.estimates.get("query_latency_p50_s"))), None)
