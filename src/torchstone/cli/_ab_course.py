"""The course of a live comparison: as it was told when it ended, or as far as its record tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from torchstone.terms.trial import Trial

if TYPE_CHECKING:
    from torchstone.ab.contest import Contested


class Course(msgspec.Struct, frozen=True):
    """Pairs of processes, the templates they were forked from, how long it took, and why it ended.

    Of a record: from the start of the first process to the end of the last; why it ended is not in there.
    """

    pairs: int
    templates: int
    elapsed_s: float | None
    stopped_because: str | None = None


def course_told(ended: Contested) -> Course:
    """Return the course of a contest that has just ended."""
    return Course(ended.pairs, ended.templates, ended.elapsed_s, ended.stopped_because)


def course_recorded(trials: Sequence[Trial]) -> Course:
    """Return what the trials of a record tell of it; they may be a stranger's."""
    pairs, templates = ({t.facts[name] for t in trials if name in t.facts} for name in ("pair", "template"))
    spans = list(_spans(trials))
    elapsed_s = max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else None
    return Course(len(pairs), len(templates), elapsed_s)


def _spans(trials: Sequence[Trial]) -> Iterator[tuple[float, float]]:
    for trial in (one for one in trials if math.isfinite(one.duration_s)):
        try:
            begin_s = datetime.fromisoformat(trial.started_utc).timestamp()
        except (ValueError, OverflowError, OSError):  # never started, or not ours
            continue
        yield begin_s, begin_s + trial.duration_s
