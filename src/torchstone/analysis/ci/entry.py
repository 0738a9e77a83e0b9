"""What the history keeps of a commit: the ratio of each benchmark to the commit before, with its interval."""

from __future__ import annotations

from torchstone.analysis.ci.assessment import Assessment
from torchstone.analysis.ci.changes import Change
from torchstone.core.errors import UsageError
from torchstone.core.schema.ci import CI_SCHEMA, HistoryEntry, HistoryPoint


def entry_of(found: Assessment) -> HistoryEntry:
    """Return the entry of the commit that was measured. Raises UsageError where nothing was measured of it."""
    result = found.result
    if result.base is None:
        raise UsageError(f"nothing to keep: {result.why_no_base or 'the commit has no base'}")
    if not any(change.ratio is not None for change in found.changes):
        raise UsageError("nothing to keep: no benchmark has a ratio; see torchstone ci gate")
    when = result.committed_utc or result.began_utc
    points = tuple(_point(change) for change in found.changes)
    return HistoryEntry(CI_SCHEMA, result.head, result.base, when, found.limit, points)


def _point(change: Change) -> HistoryPoint:
    ratio, device = change.ratio, change.device
    about = str(change.verdict), device[:200] if device is not None else None
    if ratio is None:
        return HistoryPoint(change.name, about[0], step_time_s=change.step_time_s, device=about[1])
    return HistoryPoint(
        change.name, about[0], ratio.value, ratio.low, ratio.high, ratio.level, change.step_time_s, about[1]
    )
