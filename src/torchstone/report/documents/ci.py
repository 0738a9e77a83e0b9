"""What a change does to the benchmarks of a repository, as a Document: the text of a comment on a pull request."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.ci.assessment import Assessment
from torchstone.analysis.ci.changes import Change, Verdict, why_text
from torchstone.analysis.ci.price import within_words
from torchstone.core import units
from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Section, Table, Text
from torchstone.report.documents.ci_wording import (
    change,
    command,
    headline,
    other_results,
    percent,
    reason,
    remark,
    short,
    title,
)

_MOST_LINES = 15  # that are seen before anything is unfolded
_MOST_ROWS = 10
_MOST_COMMANDS = 10
_SHORT = 9  # digits of a commit
_SEEN = (Verdict.SLOWER, Verdict.FAILED, Verdict.NO_BASELINE, Verdict.FASTER)


class Room(msgspec.Struct, frozen=True):
    """How much is said: rows that are seen at once (None: by the lines that are left), and rows of each fold."""

    seen: int | None = None
    folded: int = 1000


USUAL_ROOM = Room()


def ci_document(found: Assessment, room: Room = USUAL_ROOM) -> Document:
    """Return the counts and whether action is needed (its title), what was decided, and folded all else."""
    return Document(title(found), tuple(_parts(found, room)))


def _parts(found: Assessment, room: Room) -> Iterator[Part]:
    yield Text(headline(found), Role.HEADLINE)
    notes = [note for note in (remark(found), other_results(found)) if note]
    yield from (Text(note) for note in notes)
    seen = sorted(found.of(*_SEEN), key=lambda one: _SEEN.index(one.verdict))  # of each verdict the slowest first
    folds, typed = list(_folds(found, room)), command(found)
    most = room.seen
    if most is None:
        lines = 4 + len(notes) + bool(typed) + len(folds)  # title, headline, titles of columns, control
        most = min(_MOST_ROWS, _MOST_LINES - lines)
        most -= len(seen) > most
    if len(seen) > most:
        folds.insert(0, _fold(f"{len(seen) - most} more with a verdict", seen[most:], found, room))
    if seen[:most]:
        yield _table(seen[:most], found)
    yield Text(_circumstances(found))
    if typed:
        yield Command(typed)
    yield from folds


def _circumstances(found: Assessment) -> str:
    """Return in one line how sure it is: the control, the device, the base, the pairs of processes."""
    told = []
    if found.floor is not None:
        told.append(f"control of this job (base against itself): ±{units.percent(found.floor, 1)}")
    devices = list(dict.fromkeys(one.device for one in found.changes if one.device))
    told += [", ".join(short(device) for device in devices[:2])] if devices else []
    base = found.result.base
    told.append(f"base {base[:_SHORT]} (merge base)" if base is not None else "no base")
    pairs = [one.pairs for one in found.changes if one.pairs]
    if pairs:
        few, many = min(pairs), max(pairs)
        told.append(f"{few if few == many else f'{few} to {many}'} interleaved pairs of processes each")
    text = " · ".join(told)
    return text[0].upper() + text[1:]


# ── tables and what is folded ───────────────────────────────────────────────────────────────────────────────


def _table(changes: Sequence[Change], found: Assessment, *, priced: bool = False) -> Table:
    columns = [
        Column("benchmark", tuple(short(one.name) for one in changes), left=True, shorten=True),
        Column("base", tuple(_step(one, of_base=True) for one in changes)),
        Column("head", tuple(_step(one) for one in changes)),
        Column(f"change in time{_level(found)}", tuple(change(one) for one in changes)),
    ]
    if priced:
        columns += [
            Column("pairs needed", tuple(_number(one.price.pairs if one.price else None) for one in changes)),
            Column("time needed", tuple(_needed(one) for one in changes)),
        ]
        if any(one.price is not None and one.price.cost is not None for one in changes):
            costs = tuple(_cost(one.price.cost if one.price else None) for one in changes)
            columns.append(Column("cost", costs))
    else:
        columns.append(Column("verdict", tuple(str(one.verdict) for one in changes), left=True))
    if any(one.why for one in changes):
        columns.append(Column("why", tuple(reason(why_text(one)) if one.why else "" for one in changes), left=True))
    return Table(tuple(columns))


def _folds(found: Assessment, room: Room) -> Iterator[Section]:
    if open_ := found.of(Verdict.UNDECIDED):
        yield _undecided(open_, found, room)
    if same := found.of(Verdict.UNCHANGED):
        yield _fold(f"{len(same)} unchanged", same, found, room)
    yield Section("environment, method", (Facts(tuple(_method(found, room))),), folded=True)


def _fold(heading: str, changes: Sequence[Change], found: Assessment, room: Room) -> Section:
    parts: list[Part] = [_table(changes[: room.folded], found)] if room.folded else []
    if len(changes) > room.folded:
        parts.append(Text(f"{len(changes) - room.folded} more rows are in the summary of the job."))
    return Section(heading, tuple(parts), folded=True)


def _undecided(open_: Sequence[Change], found: Assessment, room: Room) -> Section:
    prices = [one.price for one in open_ if one.price is not None and one.price.within_s is not None]
    needed_s = sum(price.within_s or 0.0 for price in prices)
    heading = f"{len(open_)} undecided"
    if prices:
        costs = [price.cost for price in prices if price.cost is not None]
        cost = f", cost {_cost(sum(costs))}" if costs else ""
        which = "" if len(prices) == len(open_) else f" for {len(prices)} of them"
        heading += f" ({_time(needed_s)} more needed{which}{cost}; 80 % power)"
    parts: list[Part] = [_table(open_[: room.folded], found, priced=True)] if room.folded else []
    if len(open_) > room.folded:
        parts.append(Text(f"{len(open_) - room.folded} more rows are in the summary of the job."))
    shown = command(found)
    for one in open_[: min(_MOST_COMMANDS, room.folded)]:
        if one.price is not None and one.price.words:
            words = shlex.join(one.price.words)
            parts += [Command(words)] if words != shown else []
        elif one.price is not None and one.price.margin is not None:
            wider = f"--margin {100.0 * one.price.margin:.0f}%"
            undecidable = "more than a day, or more than 1,000 further pairs, needed"
            parts.append(Text(f"{short(one.name)}: {undecidable}; with {wider} it is unchanged."))
    return Section(heading, tuple(parts), folded=True)


def _method(found: Assessment, room: Room) -> Iterator[tuple[str, str]]:
    result = found.result
    yield "base", result.base or f"none: {reason(result.why_no_base or 'not found')}"
    yield "head", result.head
    yield "limit, equivalence margin", f"{percent(found.limit)}, {percent(result.margin)}"
    every = "all benchmarks and repetitions together"
    yield "false alarms", f"at most {units.percent(result.false_alarms, 1)} over {every} (Bonferroni)"
    yield "method", "both commits in one job, interleaved pairs of processes, sequential test (torchstone ab)"
    again = [one.name for one in result.benchmarks if one.earlier]
    if again and room.folded:
        yield "measured again", ", ".join(short(name) for name in again[:20])
    if found.control is not None:
        yield "control", f"{change(found.control)}: {found.control.verdict}"
    if result.elapsed_s is not None:
        yield "time", f"{units.quantity(result.elapsed_s, 's')} of {units.quantity(result.within_s, 's')}"
    for name, value in found.environment if room.folded else ():
        yield short(name), reason(value)


# ── words of a cell ─────────────────────────────────────────────────────────────────────────────────────────


def _level(found: Assessment) -> str:
    levels = {one.ratio.level for one in found.changes if one.ratio is not None}
    return f" [{100.0 * levels.pop():.4g} % confidence interval]" if len(levels) == 1 else " [confidence interval]"


def _step(one: Change, *, of_base: bool = False) -> str:
    """Return the time of a step of the change, or of the base by the ratio of the pairs."""
    if one.step_time_s is None or (of_base and one.ratio is None):
        return units.MISSING
    by = one.ratio.value if of_base and one.ratio is not None else 1.0
    return units.quantity(one.step_time_s / by, "s")


def _needed(one: Change) -> str:
    seconds = one.price.within_s if one.price is not None else None
    return _time(seconds) if seconds is not None else units.MISSING


def _time(seconds: float) -> str:
    return within_words(seconds).replace("m", " min").replace("s", " s")


def _number(value: int | None) -> str:
    return units.MISSING if value is None else str(value)


def _cost(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:.2f}"
