"""The present level of each case as a JSON line: results to hold others against (absolute_results.jsonl)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analysis.recommend.case_history import History
from torchstone.core.schema.codec import encode


def without_level(histories: Sequence[History]) -> list[History]:
    """Return the histories of which no run counts: they have no level that others could be held against."""
    return [one for one in histories if not one.segments]


def why_without_level(histories: Sequence[History]) -> str:
    """Return why no run of these counts; of runs that are doubted, what counts them."""
    reasons = dict.fromkeys(point.why for one in histories for point in one.points if point.why is not None)
    told = "; ".join(reasons)
    return f"{told} (--suspect counts them)" if any(why.startswith("SUSPECT") for why in reasons) else told


def reference_lines(histories: Sequence[History]) -> Iterator[bytes]:
    """Yield a line for each case and machine that has a level: its value with its interval, since when, of how many."""
    for one in histories:
        if not one.segments:
            continue
        last = one.segments[-1]
        body = {
            "case_id": one.case_id, "task": one.task, "model": one.model, "data": one.data, "device": one.device,
            "host": one.host, **one.configuration, one.metric: last.value, f"{one.metric}_low": last.low,
            f"{one.metric}_high": last.high, "unit": one.unit, "runs": last.runs,
            "since_utc": one.points[last.first].started_utc, "until_utc": one.points[last.last].started_utc,
        }  # fmt: skip
        yield encode(body) + b"\n"
