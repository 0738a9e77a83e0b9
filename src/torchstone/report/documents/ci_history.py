"""The history of a repository's benchmarks as a Document: slow drift first, then each benchmark over its commits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from torchstone.analysis.ci import CommitStep, Trace
from torchstone.core import units
from torchstone.report.charts.history import commits_chart
from torchstone.report.document import Chart, Column, Document, Part, Role, Section, Table, Text

_MOST_PICTURES = 50
_MOST_ROWS = 200
_SHORT, _LONGEST_NAME = 9, 80


def ci_history_document(traces: Sequence[Trace], commits: int) -> Document:
    """Return what drifted, a table of all benchmarks, and of each a picture and its newest commits, folded.

    `commits`: in the history, measured or not.
    """
    return Document("History of the benchmarks", tuple(_parts(traces, commits)))


def _parts(traces: Sequence[Trace], commits: int) -> Iterator[Part]:
    drifted = [one for one in traces if one.drift is not None]
    if not traces:
        yield Text("No benchmark has a ratio yet.", Role.HEADLINE)
        return
    those = f"{len(traces)} benchmark{'s' * (len(traces) != 1)} over {commits} commit{'s' * (commits != 1)}"
    if drifted:
        worst = max(drifted, key=lambda one: one.drift.ratio if one.drift is not None else 0.0)
        how = f"{len(drifted)} of {those}, most of all {_name(worst)}: {_drift(worst)}"
        yield Text(f"Slow drift: {how}.", Role.HEADLINE)
    else:
        yield Text(f"No slow drift is proven beyond the limit: {those}.", Role.HEADLINE)
    yield _overview(sorted(traces, key=lambda one: one.drift is None))
    yield Text(
        "Each commit is compared with the one before in one job, and the ratios are multiplied: no machine is compared "
        "with another. After a gap, a commit that was not measured, the product begins again.", Role.NOTE,
    )  # fmt: skip
    for place, trace in enumerate(traces):
        yield _one(trace, place)


def _overview(traces: Sequence[Trace]) -> Table:
    last = [trace.steps[-1] for trace in traces]
    counted = [Counter(step.point.verdict for step in trace.steps) for trace in traces]
    return Table((
        Column("benchmark", tuple(map(_name, traces)), left=True, shorten=True),
        Column("commits", tuple(str(len(trace.steps)) for trace in traces)),
        Column("slower", tuple(str(one["slower"]) for one in counted)),
        Column("faster", tuple(str(one["faster"]) for one in counted)),
        Column("newest commit", tuple(map(_own, last))),
        Column("since the last gap [95 % confidence interval]", tuple(map(_total, last))),
        Column("drift", tuple(map(_drift, traces)), left=True),
    ))  # fmt: skip


def _one(trace: Trace, place: int) -> Section:
    parts: list[Part] = []
    if place < _MOST_PICTURES and len(trace.steps) > 1:
        newest = trace.steps[-1]
        says = f"{_name(trace)}: time over {len(trace.steps)} commits; now {_total(newest)}"
        parts.append(Chart(f"history_{place + 1}_{_file_name(trace.name)}", says, commits_chart(trace)))
    newest_first = trace.steps[: -_MOST_ROWS - 1 : -1]
    parts.append(Table((
        Column("commit", tuple(step.commit[:_SHORT] for step in newest_first), left=True),
        Column("committed", tuple(step.at_utc[:19] for step in newest_first), left=True),
        Column("change in time", tuple(map(_own, newest_first))),
        Column("verdict", tuple(step.point.verdict for step in newest_first), left=True),
        Column("since the last gap [95 % confidence interval]", tuple(map(_total, newest_first))),
        Column("step time", tuple(units.quantity(step.point.step_time_s, "s") for step in newest_first), rank=1),
    )))  # fmt: skip
    return Section(_name(trace), tuple(parts), folded=True)


def _own(step: CommitStep) -> str:
    """Return the change by one commit, with its interval at its own level."""
    point = step.point
    if point.ratio is None or point.low is None or point.high is None:
        return units.MISSING
    return f"{units.change(point.ratio)} [{units.change(point.low)}, {units.change(point.high)}]"


def _total(step: CommitStep) -> str:
    return f"{units.change(step.total)} [{units.change(step.low)}, {units.change(step.high)}]"


def _drift(trace: Trace) -> str:
    found = trace.drift
    if found is None:
        return units.MISSING
    interval = f"[{units.change(found.low)}, {units.change(found.high)}]"
    return f"{units.change(found.ratio)} {interval} in {found.commits} commits"


def _name(trace: Trace) -> str:
    line = " ".join(trace.name.split())
    return line if len(line) <= _LONGEST_NAME else f"{line[:40]}…{line[-39:]}"


def _file_name(name: str) -> str:
    """Return a part of a file's name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "benchmark"
