"""Histories on the terminal: a line drawn, the levels, and what changed with each; the quiet ones in a table."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from torchstone.analysis.recommend.history import Change, Histories, History, Point
from torchstone.analysis.recommend.software import Changed
from torchstone.cli._history_line import CHANGED, LEFT_OUT, line
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import units
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.stats.segmentation import FEWEST

_AT_LENGTH = 3  # histories without a change that are shown like those with one
_MOST_CHANGED = 6  # things that changed, without --full
_MOST_ROWS = 20
_SHORT_LINE = 20
_SHORTEST_LABEL, _BESIDE_LABEL = 36, 110
_DAY = 10  # characters of a date


def print_histories(told: Histories, width: int | None = None, *, every: bool = False) -> None:
    """Print those with a change at length, the others as a table; with `every` all at length, run by run."""
    width = width or terminal_width()
    found = told.histories
    if not found:
        print(_nothing(told))
    moved = [one for one in found if one.changes]
    quiet = [one for one in found if not one.changes]
    if every or len(found) <= _AT_LENGTH:
        moved, quiet = [*moved, *quiet], []
    for place, one in enumerate(moved):
        _print_one(one, width, every=every, first=place == 0)
    if quiet:
        _print_quiet(quiet, width, after=bool(moved))
    for problem in told.problems:
        _say(f"unreadable: {problem.file}: {problem.message}", width)


def _nothing(told: Histories) -> str:
    if not told.runs:
        return "nothing is stored: torchstone run demo makes a first run"
    return f"{told.runs} run{'s' * (told.runs > 1)} stored, none with a case that has the figure {told.metric}"


def _say(text: str, width: int, indent: int = 2) -> None:
    print(textwrap.fill(plain(text), width, subsequent_indent=" " * indent, break_on_hyphens=False))


def _print_one(one: History, width: int, *, every: bool, first: bool) -> None:
    print("" if first else "\n", end="")
    _say(f"{label(one)} on {one.device}, host {one.host}", width)
    counted = [point for point in one.points if point.counted]
    spread = f", ±{100 * one.deviation:.1f} % from run to run" if one.deviation is not None and len(counted) > 2 else ""
    runs = f"{len(one.points)} run{'s' * (len(one.points) > 1)}"
    when = f"{one.points[0].started_utc[:_DAY]} to {one.points[-1].started_utc[:_DAY]}"
    _say(f"  case {one.case_id}, {one.metric}: {runs}, {when}{spread}", width, 4)
    print(f"  {line(one, width - 4)}")
    if one.segments:
        show(list(_level_columns(one)), width)
    for change in one.changes:
        _print_change(change, width, every=every)
    for text in _remarks(one):
        _say(text, width)
    if every:
        show(list(_run_columns(one)), width)


def _level_columns(one: History) -> Iterator[Column]:
    levels = one.segments
    yield Column("level", [str(place + 1) for place in range(len(levels))])
    yield Column("since", [one.points[s.first].started_utc[:_DAY] for s in levels], 1, left=True)
    yield Column("from run", [plain(one.points[s.first].run_id) for s in levels], 3, left=True)
    yield Column("runs", [str(s.runs) for s in levels])
    yield Column(one.metric, [units.quantity(s.value, one.unit, 4) for s in levels])
    yield Column("±", [units.spread(s.value, s.low, s.high) if s.runs > 1 else "" for s in levels])


def _print_change(change: Change, width: int, *, every: bool) -> None:
    day = change.started_utc[:_DAY]
    interval = f"{change.ratio:.4g} times [{change.low:.4g}, {change.high:.4g}]"
    _say(f"{day} {change.verdict.upper()}: {interval} the level before, from run {change.run_id} on", width)
    sure = [c for c in change.changed if c.throughout]
    maybe = [c for c in change.changed if not c.throughout]
    for group, words in ((sure, "with it changed"), (maybe, "changed there, and elsewhere too")):
        shown = group if every else group[:_MOST_CHANGED]
        more = f"; and {len(group) - len(shown)} more: --full" if len(group) > len(shown) else ""
        if shown:
            _say(f"  {words}: {'; '.join(map(_changed, shown))}{more}", width, 4)
    if not change.changed:
        _say("  nothing that is recorded changed with it: the machine itself, or what ran beside", width, 4)


def _changed(one: Changed) -> str:
    return f"{one.what} {one.before or 'unset'} → {one.after or 'unset'}"


def _remarks(one: History) -> Iterator[str]:
    out = [point for point in one.points if not point.counted]
    if out:
        why = ", ".join(f"{count} {reason}" for reason, count in Counter(point.why for point in out).items())
        yield f"left out ({LEFT_OUT}): {why}" + ("; --suspect counts them" if "SUSPECT" in why else "")
    if not one.enough:
        more = 2 * FEWEST - sum(point.counted for point in one.points)
        yield f"too few to see a change: {more} more run{'s' * (more > 1)} of this case ({2 * FEWEST} are the fewest)"
    elif not one.changes:
        yield "no change that stands out from its noise"


def _run_columns(one: History) -> Iterator[Column]:
    points: Sequence[Point] = one.points
    begins = {change.at for change in one.changes}
    yield Column("", [CHANGED if place in begins else "" for place in range(len(points))])
    yield Column("run", [plain(p.run_id) for p in points], left=True)
    yield Column("began (UTC)", [plain(p.started_utc[:16].replace("T", " ")) for p in points], 2, left=True)
    yield Column(one.metric, [units.quantity(p.value, one.unit, 4) for p in points])
    yield Column("±", [units.spread(p.value, p.low, p.high) for p in points], 1)
    yield Column("trials", [str(p.trials) for p in points], 3)
    yield Column("left out", [plain(p.why or "") for p in points], 1, left=True)


def _print_quiet(quiet: Sequence[History], width: int, *, after: bool) -> None:
    print(("\n" if after else "") + "no change seen:")
    rows = quiet[:_MOST_ROWS]
    room = max(_SHORTEST_LABEL, width - _BESIDE_LABEL)
    several = len({one.host for one in rows}) > 1
    show([
        Column("case", [one.case_id for one in rows], 2, left=True),
        Column("what", [_cut(plain(told), room) for told in _labels(rows)], left=True),
        Column("host", [_cut(plain(one.host), _SHORT_LINE) if several else "" for one in rows], 4, left=True),
        Column("device", [_cut(plain(one.device), _SHORT_LINE) for one in rows], 5, left=True),
        Column("runs", [str(len(one.points)) for one in rows]),
        Column(quiet[0].metric, [_latest(one) for one in rows], 1),
        Column("history", [line(one, _SHORT_LINE) for one in rows], 3, left=True),
    ], width)  # fmt: skip
    if len(quiet) > len(rows):
        print(f"and {len(quiet) - len(rows)} more: --full, or name a case or a model")
    if not all(one.enough for one in quiet):
        print(f"a change is looked for from {2 * FEWEST} runs of a case on one machine on")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _latest(one: History) -> str:
    value = one.segments[-1].value if one.segments else one.points[-1].value
    return units.quantity(value, one.unit)


def _labels(rows: Sequence[History]) -> Iterator[str]:
    """Yield task, model and batch size of each, and what else sets it apart from others of that model."""
    for one in rows:
        alike = [row.configuration for row in rows if (row.task, row.model) == (one.task, one.model)]
        apart = [axis for axis in one.configuration if len({str(row.get(axis)) for row in alike}) > 1]
        axes = dict.fromkeys((*(axis for axis in ("batch_size",) if axis in one.configuration), *apart))
        yield ", ".join((f"{one.task} {one.model}", *(_short(axis, one.configuration[axis]) for axis in axes)))


def _short(axis: str, value: Scalar) -> str:
    """Return a word alone, a number with its axis."""
    return value if isinstance(value, str) and value not in ("on", "off", "auto") else f"{axis} {value}"


def label(one: History) -> str:
    """Return a few words for a Case: task, model, batch size, and what is not as usual."""
    told = {
        axis: value for axis, value in one.configuration.items()
        if axis == "batch_size" or (axis in AXES and value != AXES[axis].default)
    }  # fmt: skip
    values = ", ".join(f"{axis} {value}" for axis, value in told.items())
    return f"{one.task} {one.model}, {values}"
