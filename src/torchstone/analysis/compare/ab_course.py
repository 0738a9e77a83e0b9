"""The course of a live comparison: pairs, templates, time; as it was told when it ended, or as its record tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from torchstone.core.schema.trial import Trial


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


def course_recorded(trials: Sequence[Trial]) -> Course:
    """Return what the trials of a record tell of it; they may be a stranger's."""
    pairs, templates = ({t.facts[name] for t in trials if name in t.facts} for name in ("pair", "template"))
    spans = list(_spans(trials))
    elapsed_s = max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else None
    share, cores = measured_share(trials, elapsed_s), threads_pinned(trials)
    return Course(len(pairs), len(templates), elapsed_s, measured_share=share, threads_pinned=cores)


def measured_share(trials: Sequence[Trial], elapsed_s: float | None) -> float | None:
    """Return what share of a time was measured turns of these trials; None where they do not tell, or tell of more."""
    measured_s = math.fsum(v for t in trials for v in t.values("turn_time_s") if math.isfinite(v))
    return measured_s / elapsed_s if elapsed_s and 0.0 < measured_s <= elapsed_s else None


def threads_pinned(trials: Sequence[Trial]) -> int | None:
    """Return the fewest logical cores that threads of a trial were bound to; None where it was not asked for."""
    told = [cores for t in trials if isinstance(cores := t.facts.get("threads_pinned"), int)]
    return min(told) if told else None


def _spans(trials: Sequence[Trial]) -> Iterator[tuple[float, float]]:
    for trial in (one for one in trials if math.isfinite(one.duration_s)):
        try:
            begin_s = datetime.fromisoformat(trial.started_utc).timestamp()
        except (ValueError, OverflowError, OSError):  # never started, or not ours
            continue
        yield begin_s, begin_s + trial.duration_s
