"""The history of a repository's benchmarks: what is kept of each commit, and slow drift over many of them.

A commit is measured against the one before in one job, so that its ratio does not depend on the machine; ratios of a
chain of commits multiply, and their errors add up. A gap, a commit that was not measured, begins a new chain. What is
proven of a commit alone, in either direction, is a step and no part of a drift: the gate has told it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from torchstone.analysis.ci.assessment import Assessment
from torchstone.analysis.ci.changes import Change
from torchstone.core.errors import ExitCode, TorchstoneError
from torchstone.core.schema.ci import HistoryEntry, HistoryPoint
from torchstone.core.schema.run import SCHEMA
from torchstone.core.stats.student import normal_quantile

SPANS = (10, 30, 100)  # commits that are looked at together
_LEVEL = 0.95


class NothingToKeep(TorchstoneError):
    """A commit has no ratio that can be relied on."""

    exit_code = ExitCode.FAILED


def entry_of(found: Assessment) -> HistoryEntry:
    """Return what the history keeps of a commit. Raises NothingToKeep: without an entry the next begins a new chain."""
    result = found.result
    if result.base is None:
        raise NothingToKeep(f"nothing to keep: {result.why_no_base or 'the commit has no base'}")
    if not found.is_reliable:
        raise NothingToKeep("nothing to keep: the base differs from itself in this job; run it again")
    if not any(change.ratio is not None for change in found.changes):
        raise NothingToKeep("nothing to keep: no benchmark has a ratio; see torchstone ci gate")
    when = result.committed_utc or result.began_utc
    return HistoryEntry(SCHEMA, result.head, result.base, when, found.limit, tuple(map(_point, found.changes)))


def _point(change: Change) -> HistoryPoint:
    device = change.device[:200] if change.device is not None else None
    point = HistoryPoint(change.name, str(change.verdict), step_time_s=change.step_time_s, device=device)
    ratio = change.ratio
    if ratio is None:
        return point
    return msgspec.structs.replace(point, ratio=ratio.value, low=ratio.low, high=ratio.high, level=ratio.level)


class Step(msgspec.Struct, frozen=True):
    """One commit of a chain. `total`, `low`, `high`: time of a step ÷ that before the chain, with its 95 % interval."""

    commit: str
    at_utc: str
    point: HistoryPoint
    total: float
    low: float
    high: float
    begins: bool


class Drift(msgspec.Struct, frozen=True):
    """What `commits` of the last did together, without steps, with an interval of 95 % over all spans at once."""

    commits: int
    ratio: float
    low: float
    high: float


class Trace(msgspec.Struct, frozen=True):
    """The history of one benchmark, oldest first. `drift`: proven beyond the limit; None where that is not so."""

    name: str
    steps: tuple[Step, ...]
    drift: Drift | None


def traces(entries: Sequence[HistoryEntry]) -> list[Trace]:
    """Return the history of each benchmark that has a ratio, by name. `entries`: oldest first."""
    ordered = _in_order(entries)
    names = dict.fromkeys(point.name for entry in ordered for point in entry.points if _log(point) is not None)
    return [_trace(name, ordered) for name in sorted(names)]


def _in_order(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Return the entries with each after its base: commits made in the same second have no order by time."""
    by_commit = {entry.commit: entry for entry in entries}
    done: dict[str, HistoryEntry] = {}
    for entry in entries:
        waiting, seen = [entry], {entry.commit}
        while (before := by_commit.get(waiting[-1].base)) is not None and before.commit not in done:
            if before.commit in seen:  # a ring, which only a made-up history has
                break
            seen.add(before.commit)
            waiting.append(before)
        for one in reversed(waiting):
            done.setdefault(one.commit, one)
    return list(done.values())


def _trace(name: str, entries: Sequence[HistoryEntry]) -> Trace:
    steps: list[Step] = []
    chain: list[tuple[float, float]] = []  # the logarithm of each ratio, and its standard error
    small: list[tuple[float, float] | None] = []  # the same; None for a step
    last = None
    limit = entries[-1].limit
    for entry in entries:
        point = next((one for one in entry.points if one.name == name), None)
        found = _log(point) if point is not None else None
        if point is None or found is None:
            continue
        begins = entry.base != last
        if begins:
            chain, small = [], []
        chain.append(found)
        small.append(None if _is_step(point, limit) else found)
        last = entry.commit
        steps.append(_step(entry, point, chain, begins=begins))
    return Trace(name, tuple(steps), _drift(small, limit))


def _is_step(point: HistoryPoint, limit: float) -> bool:
    return (point.low or 0.0) > 1.0 + limit or (point.high or math.inf) < 1.0 / (1.0 + limit)


def _step(entry: HistoryEntry, point: HistoryPoint, chain: Sequence[tuple[float, float]], *, begins: bool) -> Step:
    log, error = _sum(chain)
    half = normal_quantile(0.5 + _LEVEL / 2.0) * error
    total, low, high = (math.exp(max(-50.0, min(50.0, end))) for end in (log, log - half, log + half))
    return Step(entry.commit, entry.committed_utc, point, total, low, high, begins)


def _drift(chain: Sequence[tuple[float, float] | None], limit: float) -> Drift | None:
    """Return the longest span that is proven to be slower by more than the limit, by more than one commit."""
    spans = sorted({min(span, len(chain)) for span in SPANS}, reverse=True)
    z = normal_quantile(1.0 - (1.0 - _LEVEL) / (2.0 * len(SPANS)))  # Bonferroni
    for span in spans:
        small = [one for one in chain[-span:] if one is not None]
        if len(small) < 2:
            continue
        log, error = _sum(small)
        if log - z * error > math.log1p(limit):
            ratio, low, high = (math.exp(min(50.0, end)) for end in (log, log - z * error, log + z * error))
            return Drift(len(small), ratio, low, high)
    return None


def _sum(chain: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of independent logarithms and its standard error."""
    return math.fsum(log for log, _ in chain), math.sqrt(math.fsum(error**2 for _, error in chain))


def _log(point: HistoryPoint) -> tuple[float, float] | None:
    """Return the logarithm of a ratio and its standard error, from its interval (taken for normal)."""
    if point.ratio is None or point.low is None or point.high is None or not point.low <= point.ratio <= point.high:
        return None
    half = math.log(point.high / point.low) / 2.0
    return math.log(point.ratio), half / normal_quantile(0.5 + point.level / 2.0)
