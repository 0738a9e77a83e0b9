"""Histories as a Document: a line drawn, the levels, and what changed with each; those without a change in a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import msgspec

from torchstone.analysis.recommend.case_history import SUSPECT_RUN, Changed, Histories, History, LevelChange
from torchstone.core import units
from torchstone.core.schema.axis import Scalar
from torchstone.core.stats.change_points import FEWEST
from torchstone.report.charts.history import history_chart, label
from torchstone.report.diagnosis_messages import text
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Fields,
    Part,
    Role,
    Section,
    Table,
    Text,
    paragraphs,
)

_AT_LENGTH = 3  # histories without a change that are told like those with one
_MOST_CHANGED = 6  # things that changed
_MOST_ROWS = 20
_LINE, _SHORT_LINE = 36, 20  # runs, or groups of them, that a line drawn has room for
_DAY = 10  # characters of a date
_SAYS = "Each run with its 95 % confidence interval; a red line is a level, and beside a dashed one stands what changed"


class Requested(msgspec.Struct, frozen=True):
    """What was asked for beside the histories themselves.

    `written`: files; `lacking`: how many histories are not in the reference, and `why`; `worse`: how many a gate with
    this `margin` (0.02: 2 %) does not let through.
    """

    written: Sequence[str] = ()
    lacking: int = 0
    why: str = ""
    worse: int = 0
    margin: float = 0.0


def history_document(told: Histories, requested: Requested | None = None) -> Document:
    """Return those with a change at length, the others as a table where they are many; every run is folded."""
    beside = tuple(_of_requested(requested, len(told.histories))) if requested is not None else ()
    written = (
        (Fields(tuple(("written", file) for file in requested.written)),) if requested and requested.written else ()
    )
    return Document(f"History of {told.metric}", (*_parts(told, beside), *written))


def _parts(told: Histories, beside: Sequence[Part]) -> Iterator[Part]:
    found = told.histories
    moved = [one for one in found if one.changes]
    quiet = [one for one in found if not one.changes]
    yield from _headline(told, moved)
    yield from beside
    alone = _is_one(found)
    if len(moved) > 1:
        yield from _several(moved)
    else:
        for one in moved if len(found) > _AT_LENGTH else (*moved, *quiet):
            yield from _at_length(one, answered=alone)
    if quiet and (len(found) > _AT_LENGTH or len(moved) > 1):
        yield from _quiet(quiet)
    if found:
        yield Section("Pictures", (Chart("history", _SAYS, history_chart(found)),))
    for problem in told.problems:
        yield Text(f"unreadable: {problem.file}: {problem.message}", Role.NOTE)


def _headline(told: Histories, moved: Sequence[History]) -> Iterator[Part]:
    if not told.runs:
        yield Text("nothing is stored. Make a first run:", Role.HEADLINE)
        yield CommandLine("torchstone run demo")
    elif not told.histories:
        stored = f"{told.runs} run{'s' * (told.runs > 1)} stored"
        yield Text(f"{stored}, none with a case that has the figure {told.metric}", Role.HEADLINE)
    elif _is_one(told.histories):
        yield Text(_of_one(told.metric, moved[0].changes[-1]), Role.HEADLINE)
    else:
        yield Text(f"{told.metric}: {_of_several(moved, len(told.histories))}.", Role.HEADLINE)


def _of_several(moved: Sequence[History], of: int) -> str:
    """Return what became of several cases; of one run that changed all of them, since when, and with what."""
    cases = f"{of} case{'s' * (of > 1)}"
    if not moved:
        return f"none of {cases} changed"
    last = [one.changes[-1] for one in moved]
    most = max(last, key=lambda change: abs(math.log(change.ratio.value)))
    alike = len({f"{change.ratio.value:.3g}" for change in last}) == 1
    largest = f"{'' if alike else 'the largest change: '}{_times(most)} times the level before"
    if _is_shared(last):
        shared = [one for one in most.changed if one.throughout and all(one in change.changed for change in last)]
        why = f", with {'; '.join(map(_changed, shared[:_MOST_CHANGED]))}" if shared else ""
        if shared and all(len(change.changed) == len(shared) <= _MOST_CHANGED for change in last):
            why += ", and nothing else that is recorded"
        since = f"since {most.started_utc[:_DAY]} (run {most.run_id})"
        return f"{most.verdict} in {len(moved)} of {cases}, {since}{why}; {largest}"
    ends = Counter(str(change.verdict) for change in last)
    now = ", ".join(f"{word} in {count}" for word, count in ends.items())
    since = f"since {most.started_utc[:_DAY]} (run {most.run_id})"
    return f"{len(moved)} of {cases} changed, the newest level {now}; {largest}, {since}"


def _is_shared(last: Sequence[LevelChange]) -> bool:
    """Say whether one run changed all cases, each in the same way."""
    return len({(change.run_id, change.verdict) for change in last}) == 1


def _is_one(found: Sequence[History]) -> bool:
    """Say whether there is one change of one case, which is then the answer."""
    return len(found) == 1 and len(found[0].changes) == 1


def _of_one(metric: str, last: LevelChange) -> str:
    since = f"since {last.started_utc[:_DAY]} (run {last.run_id})"
    return f"{metric}: {last.verdict} {since}, {_times(last)} times the level before."


def _times(change: LevelChange) -> str:
    return units.ratio(change.ratio.value, change.ratio.low, change.ratio.high)


def _of_requested(requested: Requested, histories: int) -> Iterator[Part]:
    if requested.worse:
        what = f"by more than {100 * requested.margin:g} %" if requested.margin else "than the one before"
        yield Text(f"{requested.worse} of {histories} cases: the newest level is worse {what}")
    if requested.lacking:
        yield Text(f"not in the reference: {requested.lacking} of {histories} cases, {requested.why}")


def why_without_level(histories: Sequence[History]) -> str:
    """Return why no run of these counts; of runs that are doubted, what counts them."""
    reasons = [point.why for one in histories for point in one.points if point.why is not None]
    told = "; ".join(dict.fromkeys(map(text, reasons)))
    return f"{told} (--suspect counts them)" if any(why.id == SUSPECT_RUN for why in reasons) else told


def _several(moved: Sequence[History]) -> Iterator[Part]:
    """Yield the newest change of each of several cases, a row each; all of them at length are folded."""
    last = [one.changes[-1] for one in moved]
    hosts = tuple(one.host for one in moved)
    columns = (
        Column(*_named(moved), left=True, shorten=True),
        *((Column("host", hosts, left=True, shorten=True),) if len(set(hosts)) > 1 else ()),
        Column("before", tuple(units.quantity(one.segments[-2].value, one.unit) for one in moved), 3),
        Column(moved[0].metric, tuple(map(_latest, moved)), 1),
        Column("times", tuple(map(_times, last))),
        *((Column("since", tuple(change.started_utc[:_DAY] for change in last)),) if not _is_shared(last) else ()),
        Column("history", tuple(sparkline(one, _SHORT_LINE) for one in moved), 2, left=True),
    )
    yield Table(columns, most=_MOST_ROWS, how="--full, or name a case or a model")
    each = tuple(part for one in moved for part in _at_length(one))
    yield Section("each of them at length", each, folded=True)


# ── a history at length ─────────────────────────────────────────────────────────────────────────────────────


def _at_length(one: History, *, answered: bool = False) -> Iterator[Part]:
    """Yield a history. `answered`: the headline has told its change."""
    counted = [point for point in one.points if point.counted]
    spread = f", ±{100 * one.deviation:.1f} % from run to run" if one.deviation is not None and len(counted) > 2 else ""
    runs = f"{len(one.points)} run{'s' * (len(one.points) > 1)}"
    when = f"{one.points[0].started_utc[:_DAY]} to {one.points[-1].started_utc[:_DAY]}"
    parts: list[Part] = [
        *(Text(told, role) for change in one.changes for told, role in _change(change, answered=answered)),
        *paragraphs(tuple(_remarks(one))),
        Text(f"{sparkline(one, _LINE)} {runs}, {when}{spread}", Role.DETAIL),
    ]
    if one.segments:
        parts.append(Table(tuple(_level_columns(one))))
    more = tuple(_more_changed(one))
    parts.append(Section("each run", (*more, Table(tuple(_run_columns(one)))), folded=True))
    yield Section(f"{label(one)} on {one.device}, host {one.host} (case {one.case_id})", tuple(parts))


def _level_columns(one: History) -> Iterator[Column]:
    levels = one.segments
    yield Column("level", tuple(str(place + 1) for place in range(len(levels))))
    yield Column("since", tuple(one.points[s.first].started_utc[:_DAY] for s in levels), 1, left=True)
    yield Column("from run", tuple(one.points[s.first].run_id for s in levels), 3, left=True)
    yield Column("runs", tuple(str(s.runs) for s in levels))
    yield Column(one.metric, tuple(units.quantity(s.value, one.unit, 4) for s in levels))
    around = tuple(units.spread(s.value, s.low, s.high) if s.runs > 1 else "" for s in levels)
    yield Column("±", around, of=4)


def _change(change: LevelChange, *, answered: bool) -> Iterator[tuple[str, Role]]:
    """Yield a change and what changed with it; of what changed elsewhere, too, nothing where there is better."""
    ratio, day = change.ratio, change.started_utc[:_DAY]
    times = units.ratio(ratio.value, ratio.low, ratio.high)
    if not answered:
        yield f"{day} {change.verdict.upper()}: {times} times the level before, from run {change.run_id} on", Role.BODY
    sure = [c for c in change.changed if c.throughout]
    if not change.changed:
        yield "nothing that is recorded changed with it: the machine itself, or what else ran on it", Role.DETAIL
        return
    words = "with it changed" if sure else "changed there, and elsewhere too"
    shown = (sure or change.changed)[:_MOST_CHANGED]
    yield f"{words}: {'; '.join(map(_changed, shown))}", Role.DETAIL


def _more_changed(one: History) -> Iterator[Text]:
    """Yield all that changed, of each change that has more than is shown."""
    for change in one.changes:
        for title, throughout in (("with it changed", True), ("changed there, and elsewhere too", False)):
            group = [c for c in change.changed if c.throughout is throughout]
            if group:
                yield Text(f"{change.started_utc[:_DAY]}: {title}: {'; '.join(map(_changed, group))}")


def _changed(one: Changed) -> str:
    return f"{one.what} {one.before or 'unset'} → {one.after or 'unset'}"


def _remarks(one: History) -> Iterator[str]:
    out = [point for point in one.points if not point.counted]
    if out:
        why = ", ".join(f"{count} {reason}" for reason, count in Counter(text(p.why) for p in out if p.why).items())
        counts = "; --suspect counts them" if any(p.why and p.why.id == SUSPECT_RUN for p in out) else ""
        yield f"left out ({LEFT_OUT}): {why}{counts}"
    if not one.enough:
        more = 2 * FEWEST - sum(point.counted for point in one.points)
        yield f"too few to see a change: {more} more run{'s' * (more > 1)} of this case ({2 * FEWEST} are the fewest)"
    elif not one.changes:
        yield "no significant change"


def _run_columns(one: History) -> Iterator[Column]:
    points = one.points
    begins = {change.at for change in one.changes}
    if begins:
        yield Column("new level", tuple(CHANGED if place in begins else "" for place in range(len(points))), left=True)
    yield Column("run", tuple(p.run_id for p in points), left=True)
    yield Column("began (UTC)", tuple(p.started_utc[:16].replace("T", " ") for p in points), 2, left=True)
    yield Column(one.metric, tuple(units.quantity(p.value, one.unit, 4) for p in points))
    value = 3 if begins else 2
    yield Column("±", tuple(units.spread(p.value, p.low, p.high) for p in points), 1, of=value)
    yield Column("trials", tuple(str(p.trials) for p in points), 3)
    yield Column("left out", tuple(text(p.why) if p.why else "" for p in points), 1, left=True)


# ── histories without a change ──────────────────────────────────────────────────────────────────────────────


def _quiet(quiet: Sequence[History]) -> Iterator[Part]:
    hosts = tuple(one.host for one in quiet)
    columns = (
        Column("case", tuple(one.case_id for one in quiet), 2, left=True),
        Column(*_named(quiet), left=True),
        *((Column("host", hosts, 4, left=True),) if len(set(hosts)) > 1 else ()),
        Column("device", tuple(one.device for one in quiet), 5, left=True),
        Column("runs", tuple(str(len(one.points)) for one in quiet)),
        Column(quiet[0].metric, tuple(map(_latest, quiet)), 1),
        Column("history", tuple(sparkline(one, _SHORT_LINE) for one in quiet), 3, left=True),
    )
    parts: list[Part] = [Table(columns, most=_MOST_ROWS, how="--full, or name a case or a model")]
    if not all(one.enough for one in quiet):
        parts.append(Text(f"a change is looked for in cases with {2 * FEWEST} runs or more on one machine"))
    each = tuple(part for one in quiet for part in _at_length(one))
    parts.append(Section("each of them at length", each, folded=True))
    yield Section("no change seen", tuple(parts))


def _latest(one: History) -> str:
    value = one.segments[-1].value if one.segments else one.points[-1].value
    return units.quantity(value, one.unit)


def _named(rows: Sequence[History]) -> tuple[str, tuple[str, ...]]:
    """Return the title of a column and its cells; task and model are the title where all have the same."""
    settings = [", ".join(each) for each in _settings(rows)]
    of, *others = {(one.task, one.model) for one in rows}
    if others or not all(settings):
        labels = (
            ", ".join(filter(None, (f"{one.task} {one.model}", own))) for one, own in zip(rows, settings, strict=True)
        )
        return "what", tuple(labels)
    return f"{of[0]} {of[1]}", tuple(settings)


def _settings(rows: Sequence[History]) -> Iterator[Sequence[str]]:
    """Yield the batch size of each, and what else sets it apart from others of its task and model."""
    alike: dict[tuple[str, str], list[Mapping[str, Scalar]]] = {}
    for one in rows:
        alike.setdefault((one.task, one.model), []).append(one.configuration)
    for one in rows:
        others = alike[one.task, one.model]
        apart = [axis for axis in one.configuration if len({str(each.get(axis)) for each in others}) > 1]
        axes = dict.fromkeys((*(axis for axis in ("batch_size",) if axis in one.configuration), *apart))
        yield [_short(axis, one.configuration[axis]) for axis in axes]


def _short(axis: str, value: Scalar) -> str:
    """Return a word alone, a number with its axis."""
    return value if isinstance(value, str) and value not in ("on", "off", "auto") else f"{axis} {value}"


# ── a series as one line of text ────────────────────────────────────────────────────────────────────────────


_HEIGHTS = "▁▂▃▄▅▆▇█"
CHANGED, LEFT_OUT = "|", "·"
_LEAST = 0.02  # of the value: what moves less must not look like much


def sparkline(history: History, width: int) -> str:
    """Return the runs, oldest first, within `width` characters; several runs share a character where they must."""
    cuts = [change.at for change in history.changes][-(width // 4) :]
    room = max(1, width - len(cuts))
    values = [point.value if point.counted else None for point in history.points]
    size = -(-len(values) // room)
    counted = [value for value in values if value is not None]
    low, high = (min(counted), max(counted)) if counted else (0.0, 0.0)
    middle, span = (low + high) / 2.0, max(high - low, _LEAST * abs(low + high) / 2.0)
    drawn = ""
    for begin, end in _groups(len(values), size, cuts):
        mean = [value for value in values[begin:end] if value is not None]
        drawn += CHANGED if begin in cuts else ""
        drawn += _height(fmean(mean), middle, span) if mean else LEFT_OUT
    return drawn


def _groups(n: int, size: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return [begin, end) of the runs that share a character; none reaches over a change."""
    groups, begin = [], 0
    while begin < n:
        end = min([begin + size, n, *(cut for cut in cuts if cut > begin)])
        groups.append((begin, end))
        begin = end
    return groups


def _height(value: float, middle: float, span: float) -> str:
    share = 0.5 + (value - middle) / span if span > 0.0 else 0.5
    return _HEIGHTS[min(len(_HEIGHTS) - 1, max(0, int(share * len(_HEIGHTS))))]
