"""A Trial of several ranks as one: its raw values pooled over ranks, as each Metric says.

A step takes as long as on its slowest rank, since all wait for that one; items, bytes and page faults add up. What
derives figures reads the pooled Trial, and so knows no ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from torchstone.core.schema.metric import RAW, Pool
from torchstone.core.schema.trial import Measurement, Stage, Trial
from torchstone.core.stats.readings import FigureValues, pool

ALONE, TOGETHER = "unsynchronized_step_time_s", "synchronized_step_time_s"  # of the pass that tells communication apart
_FEWEST_STEPS = 3


class Slowest(NamedTuple):
    """The rank that is slowest by itself: in which share of the steps, and by how much more than the median rank."""

    rank: int
    share: float
    excess: float


def over_ranks(trial: Trial) -> Trial:
    """Return a Trial whose Measurements are pooled over ranks, as those of rank 0; itself, if it has one rank.

    Values are pooled step by step. Where ranks have different numbers of them, the first that all have count.
    """
    if all(m.rank == 0 for m in trial.measurements):
        return trial
    together: dict[tuple[str, Stage, str | None, str | None], list[Measurement]] = {}
    for m in trial.measurements:
        together.setdefault((m.metric, m.stage, m.window, m.phase), []).append(m)
    return msgspec.structs.replace(trial, measurements=tuple(map(_pooled, together.values())))


def _pooled(of_ranks: Sequence[Measurement]) -> Measurement:
    first = min(of_ranks, key=lambda m: m.rank)
    if len(of_ranks) == 1:
        return msgspec.structs.replace(first, rank=0)
    how = RAW[first.metric].over_ranks if first.metric in RAW else Pool.FIRST
    values = tuple(pool(each, how) for each in zip(*(m.values for m in of_ranks), strict=False))
    return msgspec.structs.replace(first, values=values, rank=0)


def by_rank(measured: Iterable[Measurement], metric: str, window: str | None = None) -> dict[int, tuple[float, ...]]:
    """Return the steady values of a Metric (of that window, if named) of each rank that has some."""
    return {
        m.rank: m.values
        for m in sorted(measured, key=lambda m: m.rank)
        if m.metric == metric and m.stage == Stage.STEADY and m.phase is None and window in (None, m.window)
    }


def slowest(trial: Trial) -> Slowest | None:
    """Return the rank that takes longest for a step when it waits for no other; None where that was not measured.

    Steps that wait for one another take equally long on all ranks, whichever is slow.
    """
    own = by_rank(trial.measurements, ALONE)
    steps = min(map(len, own.values()), default=0)
    if len(own) < 2 or steps < _FEWEST_STEPS:
        return None
    means = {rank: fmean(values) for rank, values in own.items()}
    rank = max(means, key=means.__getitem__)
    last = sum(1 for n in range(steps) if max(own, key=lambda r: own[r][n]) == rank)
    usual = median(means[r] for r in means if r != rank)
    return Slowest(rank, last / steps, means[rank] / usual - 1.0 if usual > 0.0 else 0.0)


def communication(trial: Trial) -> FigureValues:
    """Return what communication costs a step, of which part compute hides, and which share the slowest rank has in it.

    Hidden is what does not make a step longer than one without communication (Li et al., PyTorch Distributed, VLDB
    2020, §5.1, compare such steps); the communication itself is timed alone.
    """
    whole = over_ranks(trial)
    together, alone, own = (whole.values(name) for name in (TOGETHER, ALONE, "communication_time_s"))
    found: FigureValues = {}
    if (late := slowest(trial)) is not None:
        found["slowest_rank_excess"], found["slowest_rank_share"] = (late.excess, len(alone)), (late.share, len(alone))
    if not together or not alone:
        return found
    exposed_s = max(0.0, fmean(together) - fmean(alone))
    found["compute_step_time_s"] = (fmean(alone), len(alone))
    found["exposed_communication_s"] = (exposed_s, len(together))
    if own and (own_s := fmean(own)) > 0.0:
        found["communication_time_s"] = (own_s, len(own))
        found["communication_overlap"] = (max(0.0, 1.0 - exposed_s / own_s), len(together))
    return found


def throughputs(measured: Sequence[Measurement]) -> Iterator[tuple[int, float]]:
    """Yield each rank with its own items/s in its throughput windows."""
    items, times = by_rank(measured, "items", "throughput"), by_rank(measured, "window_time_s", "throughput")
    for rank, done in items.items():
        if (time_s := sum(times.get(rank, ()))) > 0.0:
            yield rank, sum(done) / time_s
