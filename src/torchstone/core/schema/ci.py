"""What was measured of a change in CI: its two commits, the benchmarks, and which record has the comparison of each.

It may come from a job that ran a stranger's code: whoever reads it decodes it against these bounds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

MOST_BENCHMARKS = 1000

Commit = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Words = Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=30)]
RunId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")]
Why = Annotated[str, Meta(max_length=2000)]
Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]


class State(StrEnum):
    """How far a benchmark came."""

    PLANNED = "planned"  # the job ended before its turn
    MEASURED = "measured"
    NO_BASELINE = "no baseline"  # the base cannot be measured: it lacks the code, or it fails there
    FAILED = "failed"  # the change cannot be measured


class CiBenchmark(msgspec.Struct, frozen=True):
    """One benchmark. `words`: what `torchstone ab BASE HEAD` takes to measure it alone; none where no words do.

    `run_id`: of the record with its comparison; `earlier`: of those that stayed undecided before; `why`: of no baseline
    and of a failure.
    """

    name: Name
    words: Words = ()
    state: State = State.PLANNED
    run_id: RunId | None = None
    why: Why | None = None
    earlier: Annotated[tuple[RunId, ...], Meta(max_length=10)] = ()


class CiResult(msgspec.Struct, frozen=True, tag="ci", tag_field="record"):
    """The file ci.json. `base`: the merge base; None where none was found (`why_no_base`).

    `margin`, `limit`: relative changes that count as equal, and that a change may not exceed. `false_alarms`: the bound
    on the chance of any false alarm, over all benchmarks and repetitions. `control`: the base against itself.
    """

    schema: Annotated[int, Meta(ge=1)]
    base: Commit | None
    head: Commit
    began_utc: Annotated[str, Meta(max_length=40)]
    within_s: Seconds
    margin: Share
    limit: Share
    false_alarms: Share
    benchmarks: Annotated[tuple[CiBenchmark, ...], Meta(max_length=MOST_BENCHMARKS)]
    control: CiBenchmark | None = None
    why_no_base: Why | None = None
    elapsed_s: Seconds | None = None
    committed_utc: Annotated[str, Meta(max_length=40)] | None = None


class HistoryPoint(msgspec.Struct, frozen=True):
    """One benchmark of one commit: time of a step ÷ that of the commit before, with its confidence interval.

    `step_time_s`: the median over processes of the commit; it depends on the machine, the ratio does not.
    """

    name: Name
    verdict: Annotated[str, Meta(max_length=40)]
    ratio: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None
    low: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None
    high: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None
    level: Share = 0.95
    step_time_s: Annotated[float, Meta(gt=0.0, lt=1e9)] | None = None
    device: Annotated[str, Meta(max_length=200)] | None = None


class HistoryEntry(msgspec.Struct, frozen=True, tag="ci_commit", tag_field="record"):
    """One commit in the history: an immutable file `commits/<commit>.json`."""

    schema: Annotated[int, Meta(ge=1)]
    commit: Commit
    base: Commit
    committed_utc: Annotated[str, Meta(max_length=40)]
    limit: Share
    points: Annotated[tuple[HistoryPoint, ...], Meta(max_length=MOST_BENCHMARKS)]
