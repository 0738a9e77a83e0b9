"""What more ranks bring: throughput beside that of fewer, with the same batch a rank (weak) or in all (strong).

Efficiency is the throughput over what the baseline's would be with as many times the ranks. The same batch a rank:
Gustafson, Communications of the ACM 31 (1988); the same batch in all: Amdahl, AFIPS 30 (1967).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from torchstone.analysis.advice.in_rounds import InRounds
from torchstone.analysis.summary import CaseSummary
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.ranks import (
    AXES_OF_RANKS,
    NO_STRATEGY,
    STRATEGY,
    is_distributed,
    items_together,
    nodes,
    world_size,
)

METHOD = "ratio of throughputs over ranks, by rounds"
SIZES = ("batch_size", "grad_accumulation")


class Scaling(msgspec.Struct, frozen=True):
    """A Case of several ranks, or of a strategy, beside its baselines: the Cases with the fewest ranks.

    `weak`, `strong`: efficiencies; None where there is no such baseline, or no throughput.
    """

    case: CaseSummary
    ranks: int
    weak: Estimate | None = None
    weak_baseline: CaseSummary | None = None
    strong: Estimate | None = None
    strong_baseline: CaseSummary | None = None


def scaling(cases: Sequence[CaseSummary]) -> list[Scaling]:
    """Return the Scaling of each Case that belongs to ranks: distributed, or the baseline of one that is."""
    if not any(is_distributed(case.configuration) for case in cases):
        return []
    weak, strong = _together(cases, ()), _together(cases, SIZES)
    found = []
    for case in cases:
        same = weak[_rest(case, ())]
        total = [c for c in strong[_rest(case, SIZES)] if items_together(c.configuration) == _items(case)]
        first, whole = _baseline(case, same), _baseline(case, total)
        if is_distributed(case.configuration) or any(len(group) > 1 for group in (same, total)):
            ends = (_efficiency(case, first), first, _efficiency(case, whole), whole)
            found.append(Scaling(case, world_size(case.configuration), *ends))
    return found


def _items(case: CaseSummary) -> int:
    return items_together(case.configuration)


def _rest(case: CaseSummary, others: Sequence[str]) -> tuple[tuple[str, Scalar], ...]:
    left_out = (*AXES_OF_RANKS, *others)
    workload = (("", f"{case.workload.task} {case.workload.model} {case.workload.data} {case.placement}"),)
    return (*workload, *sorted((n, v) for n, v in case.configuration.items() if n not in left_out))


def _together(
    cases: Sequence[CaseSummary], others: Sequence[str]
) -> Mapping[tuple[tuple[str, Scalar], ...], list[CaseSummary]]:
    found: dict[tuple[tuple[str, Scalar], ...], list[CaseSummary]] = {}
    for case in cases:
        found.setdefault(_rest(case, others), []).append(case)
    return found


def _baseline(case: CaseSummary, group: Sequence[CaseSummary]) -> CaseSummary | None:
    """Return the Case with the fewest ranks of the group, fewer than this one: that without a strategy, if there is."""
    mine = case.configuration.get(STRATEGY)
    alike = [
        one
        for one in group
        if world_size(one.configuration) < world_size(case.configuration)
        and one.configuration.get(STRATEGY, NO_STRATEGY) in (mine, NO_STRATEGY)
        and "throughput" in one.estimates
    ]

    def order(one: CaseSummary) -> tuple[int, bool, int]:
        return world_size(one.configuration), is_distributed(one.configuration), nodes(one.configuration)

    return min(alike, key=order, default=None)


def _efficiency(case: CaseSummary, baseline: CaseSummary | None) -> Estimate | None:
    own = case.estimates.get("throughput")
    if baseline is None or own is None:
        return None
    before = baseline.estimates["throughput"]
    times = world_size(case.configuration) / world_size(baseline.configuration)
    value = own.value / before.value / times
    ends: tuple[float | None, float | None] = (None, None)
    if (found := InRounds([case, baseline]).ratio(case.case_id, baseline.case_id, own.level)) is not None:
        value, ends = found[0] / times, (found[1] / times, found[2] / times)
    trials = min(own.trials, before.trials)
    return Estimate(value, *ends, own.level, "ratio", METHOD, trials, min(own.samples, before.samples))


def scaling_rows(points: Sequence[Scaling]) -> Iterator[Scaling]:
    """Yield them by ranks, those of one strategy and batch together; one process without a strategy first."""

    def key(point: Scaling) -> tuple[bool, str, int, int, int]:
        settings = point.case.configuration
        of_a_rank = _items(point.case) // point.ranks
        return is_distributed(settings), str(settings.get(STRATEGY)), of_a_rank, point.ranks, nodes(settings)

    yield from sorted(points, key=key)
