"""The course of a live comparison: as it was told when it ended, or as far as its record tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from torchstone.core.schema.trial import Trial

if TYPE_CHECKING:
    from torchstone.workflows.ab.experiment import Contested


class Course(msgspec.Struct, frozen=True):
    """Pairs of processes, the templates they were forked from, how long it took, and why it ended.

    `measured_share`: of that time, what was measured turns; `threads_pinned`: the logical cores that a process had a
    thread bound to, the fewest of all processes, None where it was not asked for; `spent_s`: where the time went;
    `needed_s`: what the fewest pairs take, where they did not fit. Of a record: from the start of the first process to
    the end of the last; why it ended, and what was spent outside of pairs, is not in there.
    """

    pairs: int
    templates: int
    elapsed_s: float | None
    stopped_because: str | None = None
    measured_share: float | None = None
    threads_pinned: int | None = None
    spent_s: Mapping[str, float] = {}
    needed_s: float | None = None


def course_told(ended: Contested) -> Course:
    """Return the course of a contest that has just ended."""
    measured_s = ended.spent.measured_s if ended.spent else 0.0
    spent = {k.removesuffix("_s"): v for k, v in msgspec.structs.asdict(ended.spent).items()} if ended.spent else {}
    return Course(
        ended.pairs, ended.templates, ended.elapsed_s, ended.stopped_because,
        measured_s / ended.elapsed_s if measured_s and ended.elapsed_s else _share(ended.trials, ended.elapsed_s),
        _pinned(ended.trials), spent, ended.needed_s,
    )  # fmt: skip


def course_recorded(trials: Sequence[Trial]) -> Course:
    """Return what the trials of a record tell of it; they may be a stranger's."""
    pairs, templates = ({t.facts[name] for t in trials if name in t.facts} for name in ("pair", "template"))
    spans = list(_spans(trials))
    elapsed_s = max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else None
    return Course(
        len(pairs), len(templates), elapsed_s, measured_share=_share(trials, elapsed_s), threads_pinned=_pinned(trials)
    )


def _share(trials: Sequence[Trial], elapsed_s: float | None) -> float | None:
    measured_s = math.fsum(v for t in trials for v in t.values("turn_time_s") if math.isfinite(v))
    return measured_s / elapsed_s if elapsed_s and 0.0 < measured_s <= elapsed_s else None


def _pinned(trials: Sequence[Trial]) -> int | None:
    told = [cores for t in trials if isinstance(cores := t.facts.get("threads_pinned"), int)]
    return min(told) if told else None


def _spans(trials: Sequence[Trial]) -> Iterator[tuple[float, float]]:
    for trial in (one for one in trials if math.isfinite(one.duration_s)):
        try:
            begin_s = datetime.fromisoformat(trial.started_utc).timestamp()
        except (ValueError, OverflowError, OSError):  # never started, or not ours
            continue
        yield begin_s, begin_s + trial.duration_s
