"""What loads answer: the goodput that was looked for, or what each scenario showed, with LoadGen's own verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.goodput import Goodput, goodputs
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.messages import too_wide
from torchstone.core.schema.case import model_name
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.procedure import OFFLINE, PERCENTILES_OF_SCENARIO, SERVER
from torchstone.core.schema.trial import Status, ended_well, is_of_busy_machine
from torchstone.report.document import Column, Part, Role, Text

_MOST = 4  # loads that are answered at once
_COUNTED_RANK = 1


def goodput_parts(run: RunSummary) -> Iterator[Part]:
    """Yield the answer of a search for goodput: the rate with its interval, and what LoadGen says of the rates."""
    found = goodputs(run)
    for one in found:
        yield Text(_headline(one, whole=run.status == "done", busy=_disturbed(run.cases)), Role.HEADLINE)
        yield from (Text(line, Role.DETAIL) for line in _details(one))
    if not found:
        bad = [t.outcome for case in run.cases for t in case.trials if t.outcome.status != Status.OK]
        why = f"{bad[0].status}: {bad[0].message}" if bad else "no load was taken"
        yield Text(f"Goodput is not known: {why}", Role.HEADLINE)
    if (short := _not_mlperf(run.cases)) is not None:
        yield Text(short, Role.DETAIL)


def _disturbed(cases: Sequence[CaseSummary]) -> str:
    """Return what to do where loads rest on disturbed ones; else ""."""
    loads = [trial for case in cases for trial in ended_well(case.trials)]
    if not is_of_busy_machine(loads):
        return ""
    bad = sum(trial.disturbed for trial in loads)
    return f"Other programs disturbed {bad} of {len(loads)} loads: stop them, and measure again."


def _headline(one: Goodput, *, whole: bool, busy: str) -> str:
    """`busy`: what to do where other programs disturbed the loads, in place of more time."""
    more = f" {busy or 'More time: --within.'}"
    told = f" {busy}" if busy else ""
    bound = f"p99 ≤ {units.quantity(one.bound_s, 's')}"
    name = f"{model_name(one.workload.model)} on {one.placement}"
    if not one.met_any:
        none_meets = _is_slow_alone(one) or (whole and one.lowest is not None and not one.lower_unanswered)
        if none_meets:
            return f"{name}: no rate meets {bound}. {_nearest(one)}{told}"
        return f"{name}: the highest rate at {bound} is not known. {_nearest(one)}{more}"
    if one.rate is None:
        known = f"{units.significant(one.valid[0], 3)} queries/s" if one.valid is not None else "no rate"
        return f"{name}: the highest rate at {bound} is not known; LoadGen calls {known} VALID.{more}"
    rate = f"{units.significant(one.rate, 3)} {one.workload.item}s/s"
    if one.low is None or one.high is None:
        return f"{name}: goodput about {rate} at {bound} (no interval: the trials differ too much).{more}"
    ends = f"{units.significant(one.low, 3)} to {units.significant(one.high, 3)}"
    return f"{name}: goodput {rate} at {bound} ({100 * one.level:g} % confidence interval {ends}).{told}"


def _is_slow_alone(one: Goodput) -> bool:
    return one.alone_p50_s is not None and one.alone_p50_s > one.bound_s


def _nearest(one: Goodput) -> str:
    if one.alone_p50_s is not None and _is_slow_alone(one):
        return f"A query that is alone takes {units.quantity(one.alone_p50_s, 's')} (median)."
    if one.lowest is None or one.lowest_p99_s is None:
        return "No rate was measured."
    return f"At {units.significant(one.lowest, 3)} queries/s, the lowest measured, it is {_time(one.lowest_p99_s)}."


def _details(one: Goodput) -> Iterator[str]:
    batch, wait_s = one.configuration.get("batch_size"), float(one.configuration.get("max_wait_s") or 0.0)
    waits = f"after {units.quantity(wait_s, 's')} at the latest" if wait_s else "as soon as the model is free"
    yield f"Batches of at most {batch}, {waits}; arrivals are a Poisson process."
    if one.trials:
        yield f"From {one.trials} loads at {one.rates} rates, by log-linear regression of the late queries on the rate."
    if one.valid is not None:
        rate, times = one.valid
        yield f"MLPerf LoadGen calls {units.significant(rate, 3)} queries/s VALID in {times} of {times} loads."
    else:
        yield "MLPerf LoadGen calls no rate VALID each time."
    if one.alone_p50_s is not None and one.met_any:
        yield f"A query that is alone takes {units.quantity(one.alone_p50_s, 's')} (median)."


def _not_mlperf(cases: Sequence[CaseSummary]) -> str | None:
    """Return that this is no MLPerf result, where its loads are shorter than those have to be."""
    facts = [t.facts for case in cases for t in case.trials if t.facts.loadgen_min_duration_s is not None]
    if not facts:
        return None
    had_s = min(f.loadgen_min_duration_s or 0.0 for f in facts)
    least_s = max(f.loadgen_mlperf_min_duration_s or 0.0 for f in facts)
    if had_s >= least_s:
        return None
    return f"Not an MLPerf result: min_duration {units.quantity(had_s, 's')}, a submission's is {least_s:g} s."


def load_lines(cases: Sequence[CaseSummary]) -> str:
    """Return what the loads of one workload showed, a sentence each, and what LoadGen said of them."""
    lines = [_of_load(case) for case in cases[:_MOST]]
    if len(cases) > _MOST:
        lines.append(f"{len(cases) - _MOST} more are in the table.")
    return " ".join([*lines, *filter(None, (_not_mlperf(cases),))])


def _of_load(case: CaseSummary) -> str:
    scenario = str(case.configuration.get("scenario"))
    name = f"{scenario}, {case.configuration.get('target_qps'):g} queries/s" if scenario == SERVER else scenario
    bad = next((t.outcome for t in case.trials if t.outcome.status != Status.OK), None)
    counted = counted_verdict(case)
    if counted is None:
        return f"{name}: {bad.status}: {bad.message}." if bad is not None else f"{name}: not measured."
    if scenario == OFFLINE:
        told = _with_interval(case.estimates.get("throughput"), f"{case.workload.item}s/s")
    else:
        percentile = f"p{100 * PERCENTILES_OF_SCENARIO[scenario]:g}"
        told = f"{percentile} {_with_interval(case.estimates.get(f'query_latency_{percentile}_s'), None)}"
    if scenario == SERVER:
        told += f", bound {units.quantity(float(case.configuration.get('latency_bound_s') or 0.0), 's')}"
    return f"{name}: {told}; LoadGen: {counted}."


def _with_interval(found: Estimate | None, unit: str | None) -> str:
    if found is None:
        return units.MISSING
    value = _time(found.value) if unit is None else f"{units.significant(found.value, 3)} {unit}"
    if found.low is None or found.high is None:
        return f"{value} ({found.note or 'no interval'})"
    if found.is_wide:
        return f"about {value}, but {too_wide(found.trials)}"
    low, high = (
        (_time(found.low), _time(found.high))
        if unit is None
        else (units.significant(found.low, 3), units.significant(found.high, 3))
    )
    return f"{value} ({100 * found.level:g} % confidence interval {low} to {high})"


def _time(seconds: float) -> str:
    return units.quantity(seconds, "s")


def counted_verdict(case: CaseSummary) -> str | None:
    """Return "VALID in 3 of 3 loads", LoadGen's own word; None where it gave none."""
    results = [str(t.facts.loadgen_result) for t in case.trials if t.facts.loadgen_result]
    if not results:
        return None
    word = "VALID" if all(result == "VALID" for result in results) else "INVALID"
    return f"{word} in {results.count(word)} of {len(results)} loads"


def verdict_column(cases: Sequence[CaseSummary]) -> Column:
    """Return a column of LoadGen's verdicts: how many loads of how many it calls VALID."""
    cells = []
    for case in cases:
        results = [t.facts.loadgen_result for t in case.trials if t.facts.loadgen_result]
        cells.append(f"{results.count('VALID')} of {len(results)} VALID" if results else units.MISSING)
    return Column("LoadGen", tuple(cells), _COUNTED_RANK, left=True)
