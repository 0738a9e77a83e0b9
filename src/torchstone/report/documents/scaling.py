"""Several ranks: what each brings, what their communication costs, who is late; a table and the sentence it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchstone.analysis.advice.grouping import groups, varying_axes
from torchstone.analysis.scaling import SIZES, Scaling, rows_of, scaling
from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.ranks import AXES_OF_RANKS, BACKEND, STRATEGY, items_together, nodes
from torchstone.core.schema.trial import Status
from torchstone.report.document import Column, Part, Role, Section, Table, Text

_ON_ONE_CPU = (
    "Ranks on one CPU share its cores: where one rank computes on all of them, sharing them brings 1 / ranks. "
    "threads=1 compares cores."
)


def scaling_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section for each workload and device with ranks."""
    for group in groups(run.cases):
        points = list(rows_of(scaling(group)))
        if points:
            first = points[0].case
            title = f"Ranks: {first.workload.task} {first.workload.model} on {first.placement}"
            yield Section(title, tuple(_parts(points)))


def _parts(points: Sequence[Scaling]) -> Iterator[Part]:
    if (says := _best(points)) is not None:
        yield Text(says)
    yield Table(tuple(_columns(points)))
    facts = [line for point in points if (line := _of_each_rank(point.case)) and point.ranks > 1]
    yield from (Text(line, Role.DETAIL) for line in facts)
    if points[0].case.placement.device == "cpu" and any(p.weak is not None or p.strong is not None for p in points):
        yield Text(_ON_ONE_CPU, Role.DETAIL)


def _best(points: Sequence[Scaling]) -> str | None:
    """Return what the largest number of ranks brings at best, with its interval; None where that is not certain."""
    told = [(point, kind, found) for point in points for kind, found in (("weak", point.weak), ("strong", point.strong))
            if found is not None and not found.is_wide]  # fmt: skip
    if not told:
        return None
    top, kind, found = max(told, key=lambda one: (one[0].ranks, one[1] == "weak", one[2].value))
    return f"{top.ranks} ranks ({top.case.configuration.get(STRATEGY)}): {kind} scaling efficiency {_share(found)}."


def _columns(points: Sequence[Scaling]) -> Iterator[Column]:
    cases = [point.case for point in points]
    item = cases[0].workload.item
    yield Column("ranks", tuple(str(point.ranks) for point in points))
    if any(nodes(case.configuration) > 1 for case in cases):
        yield Column("nodes", tuple(str(nodes(case.configuration)) for case in cases), 1)
    yield Column("strategy", tuple(str(case.configuration.get(STRATEGY, "none")) for case in cases), left=True)
    backends = tuple(str(case.configuration.get(BACKEND, "")).replace("auto", "") for case in cases)
    yield Column("back end", backends, 5, left=True)
    yield Column("batch of a rank", tuple(str(case.configuration.get("batch_size")) for case in cases), 1)
    for axis in (axis for axis in varying_axes(cases) if axis not in (*AXES_OF_RANKS, *SIZES)):
        yield Column(axis.replace("_", " "), tuple(str(case.configuration.get(axis)) for case in cases), 1)
    yield Column("effective batch", tuple(str(items_together(case.configuration)) for case in cases), 3)
    yield _column(f"{item}s/s in all", cases, "throughput", lambda e: units.significant(e.value, 4))
    yield Column("weak efficiency", tuple(_share(point.weak) for point in points), 1)
    if any(point.strong is not None for point in points):
        yield Column("strong efficiency", tuple(_share(point.strong) for point in points), 1)
    yield _column("communication", cases, "communication_time_s", _time, 2)
    yield _column("exposed", cases, "exposed_communication_s", _time, 2)
    yield _column("overlap", cases, "communication_overlap", lambda e: units.quantity(e.value, "ratio"), 3)
    yield _column("slowest rank", cases, "slowest_rank_excess", lambda e: f"+{units.percent(e.value)}", 4)


def _column(
    title: str, cases: Sequence[CaseSummary], figure: str, shown: Callable[[Estimate], str], rank: int = 0
) -> Column:
    found = (case.estimates.get(figure) for case in cases)
    return Column(title, tuple(units.MISSING if e is None else shown(e) for e in found), rank)


def _time(found: Estimate) -> str:
    return units.quantity(found.value, "s")


def _share(found: Estimate | None) -> str:
    """Return an efficiency with its interval; a dash where there is none, or where it is too wide to say anything."""
    if found is None or found.is_wide:
        return units.MISSING
    if found.low is None or found.high is None:
        return units.percent(found.value)
    return f"{units.percent(found.value)} [{units.percent(found.low)}, {units.percent(found.high)}]"


def _of_each_rank(case: CaseSummary) -> str | None:
    """Return what the ranks of a Case's first successful trial had and did."""
    trial = next((t for t in case.trials if t.outcome.status == Status.OK and t.facts.items_per_s_by_rank), None)
    if trial is None:
        return None
    facts, settings = trial.facts, case.configuration
    places = f"; nodes {_by_rank(facts.node_by_rank)}" if facts.node_by_rank else ""
    rates, threads, cores = map(_by_rank, (facts.items_per_s_by_rank, facts.threads_by_rank, facts.cores_by_rank))
    resharded = ""
    if facts.reshard_after_forward:
        root, *units = facts.reshard_after_forward
        resharded = f"; weights given back after the forward pass: root: {root}"
        resharded += f"; {facts.fsdp_units} units: {', '.join(units)}" if units else ""
    spread = f" on {nodes(settings)} nodes" if nodes(settings) > 1 else ""
    name = f"{facts.ranks} ranks{spread}, {settings.get(STRATEGY)}, batch {settings.get('batch_size')}"
    return f"{name}: {case.workload.item}s/s by rank {rates}; threads {threads}; cores {cores}{places}{resharded}"


def _by_rank(values: Sequence[object]) -> str:
    shown = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
    return "; ".join(f"{rank}: {value}" for rank, value in enumerate(shown))
