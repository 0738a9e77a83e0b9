"""What a change does to the benchmarks of a repository, as a Document: the text of a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.ci.assessment import Assessment, Conclusion
from torchstone.analysis.ci.changes import Change, Verdict
from torchstone.analysis.ci.price import within_words
from torchstone.core import units
from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Section, Table, Text

_MOST_LINES = 15  # that are seen before anything is unfolded
_MOST_ROWS = 10
_MOST_COMMANDS = 10
_LONGEST_NAME, _LONGEST_WHY = 80, 200
_SHORT = 9  # digits of a commit
_ENDINGS = {
    Conclusion.PASSED: "no action needed", Conclusion.ACCEPTED: "accepted", Conclusion.SLOWER: "action needed",
    Conclusion.FAILED: "not all were measured: action needed", Conclusion.NO_BASELINE: "no baseline",
    Conclusion.UNDECIDED: "undecided",
}  # fmt: skip
_SEEN = (Verdict.SLOWER, Verdict.FAILED, Verdict.NO_BASELINE, Verdict.FASTER)


class Room(msgspec.Struct, frozen=True):
    """How much is said: rows that are seen at once (None: by the lines that are left), and rows of each fold."""

    seen: int | None = None
    folded: int = 1000


def ci_document(found: Assessment, room: Room = Room()) -> Document:
    """Return the counts and whether action is needed (its title), what was decided, and folded all else."""
    return Document(f"torchstone: {counts(found)} — {_ending(found)}", tuple(_parts(found, room)))


def counts(found: Assessment) -> str:
    """Return how many there are of each verdict: "1 slower, 0 faster, 37 unchanged, 2 undecided"."""
    always = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCHANGED, Verdict.UNDECIDED)
    told = [f"{found.counts[verdict]} {verdict}" for verdict in always]
    if found.counts[Verdict.NO_BASELINE]:
        told.append(f"{found.counts[Verdict.NO_BASELINE]} without a baseline")
    if found.counts[Verdict.FAILED]:
        told.append(f"{found.counts[Verdict.FAILED]} failed")
    return ", ".join(told)


def _ending(found: Assessment) -> str:
    return "not reliable" if not found.is_reliable else _ENDINGS[found.conclusion]


def _parts(found: Assessment, room: Room) -> Iterator[Part]:
    yield Text(_headline(found), Role.HEADLINE)
    if _lacks_reason(found) and found.acceptance is not None:
        label = _short(found.acceptance.label)
        yield Text(f"The label {label} has no reason: write one into the description, as a line: Slower because: …")
    seen = sorted(found.of(*_SEEN), key=lambda one: _SEEN.index(one.verdict))  # of each verdict the slowest first
    folds, command = list(_folds(found, room)), _next(found)
    most = room.seen
    if most is None:
        lines = 4 + _lacks_reason(found) + bool(command) + len(folds)  # title, headline, titles of columns, control
        most = min(_MOST_ROWS, _MOST_LINES - lines)
        most -= len(seen) > most
    if len(seen) > most:
        folds.insert(0, _fold(f"{len(seen) - most} more with a verdict", seen[most:], found, room))
    if seen[:most]:
        yield _table(seen[:most], found)
    yield Text(_circumstances(found))
    if command:
        yield Command(command)
    yield from folds


def _lacks_reason(found: Assessment) -> bool:
    given = found.acceptance
    return found.conclusion is Conclusion.SLOWER and given is not None and not given.reason


# ── the answer ──────────────────────────────────────────────────────────────────────────────────────────────


def _headline(found: Assessment) -> str:
    limit = _percent(found.limit)
    if not found.is_reliable and found.control is not None:
        return f"Not reliable: the base differs from itself in this job ({_change(found.control)} time); run it again."
    worst = next((one for one in found.of(Verdict.SLOWER) if one.beyond), None)
    if worst is not None:
        several = [one for one in found.changes if one.beyond]
        those = "1 benchmark is" if len(several) == 1 else f"{len(several)} benchmarks are"
        most = "" if len(several) == 1 else "most of all "
        slower = f"{those} slower by more than {limit}: {most}{_short(worst.name)}, {_change(worst)} time"
        if found.conclusion is Conclusion.ACCEPTED and found.acceptance is not None:
            return f"{slower}. Accepted: {_short(found.acceptance.reason or '', _LONGEST_WHY)}"
        return f"{slower}."
    if failed := found.of(Verdict.FAILED):
        return f"{_short(failed[0].name)} was not measured: {_short(failed[0].why or 'no reason given', _LONGEST_WHY)}"
    if without := found.of(Verdict.NO_BASELINE):
        why = _short(without[0].why or "no reason given", _LONGEST_WHY)
        return f"No baseline for {len(without)} of {len(found.changes)}: {why}"
    if not found.changes:
        return "No baseline: there is no benchmark."
    return _quiet(found, limit)


def _quiet(found: Assessment, limit: str) -> str:
    """Return what is said where nothing is slower beyond the limit: "No change above 2 %; largest still possible …"."""
    what = "slowdown" if found.counts[Verdict.FASTER] or found.counts[Verdict.SLOWER] else "change"
    ends = [one.ratio.high for one in found.changes if one.ratio is not None and one.ratio.high is not None]
    if len(ends) < len(found.changes):
        unknown = len(found.changes) - len(ends)
        return f"No {what} above {limit} is proven; of {unknown} of {len(found.changes)} nothing is known yet."
    possible = f"largest still possible {units.change(max(ends))} time"
    if found.conclusion is Conclusion.UNDECIDED:
        return f"No {what} above {limit} is proven; {possible}."
    return f"No {what} above {limit}; {possible}."


def _next(found: Assessment) -> str:
    """Return the command that is worth typing: it shows the worst again, or decides what is undecided."""
    worst = next((one for one in found.of(Verdict.SLOWER) if one.beyond), None)
    if worst is not None:
        return _words(worst.command)
    open_ = found.of(Verdict.UNDECIDED)
    return _words(open_[0].price.words) if len(open_) == 1 and open_[0].price is not None else ""


def _words(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(words) if words else ""


def _circumstances(found: Assessment) -> str:
    """Return in one line how sure it is: the control, the device, the base, the pairs of processes."""
    told = []
    if found.floor is not None:
        told.append(f"control of this job (base against itself): ±{units.percent(found.floor, 1)}")
    devices = list(dict.fromkeys(one.device for one in found.changes if one.device))
    told += [", ".join(_short(device) for device in devices[:2])] if devices else []
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
        Column("benchmark", tuple(_short(one.name) for one in changes), left=True, shorten=True),
        Column(f"change in time{_level(found)}", tuple(_change(one) for one in changes)),
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
        columns.append(Column("limit", tuple(_percent(found.limit) for _ in changes)))
        columns.append(Column("verdict", tuple(str(one.verdict) for one in changes), left=True))
    if any(one.why for one in changes):
        columns.append(Column("why", tuple(_short(one.why or "", _LONGEST_WHY) for one in changes), left=True))
    return Table(tuple(columns))


def _folds(found: Assessment, room: Room) -> Iterator[Section]:
    if open_ := found.of(Verdict.UNDECIDED):
        yield _undecided(open_, found, room)
    if same := found.of(Verdict.UNCHANGED):
        yield _fold(f"{len(same)} unchanged", same, found, room)
    yield Section("environment, method", (Facts(tuple(_method(found, room))),), folded=True)


def _fold(title: str, changes: Sequence[Change], found: Assessment, room: Room) -> Section:
    parts: list[Part] = [_table(changes[: room.folded], found)] if room.folded else []
    if len(changes) > room.folded:
        parts.append(Text(f"{len(changes) - room.folded} more rows are in the summary of the job."))
    return Section(title, tuple(parts), folded=True)


def _undecided(open_: Sequence[Change], found: Assessment, room: Room) -> Section:
    prices = [one.price for one in open_ if one.price is not None and one.price.within_s is not None]
    needed_s = sum(price.within_s or 0.0 for price in prices)
    title = f"{len(open_)} undecided"
    if prices:
        costs = [price.cost for price in prices if price.cost is not None]
        cost = f", cost {_cost(sum(costs))}" if costs else ""
        which = "" if len(prices) == len(open_) else f" for {len(prices)} of them"
        title += f" ({_time(needed_s)} more needed{which}{cost}; 80 % power)"
    parts: list[Part] = [_table(open_[: room.folded], found, priced=True)] if room.folded else []
    if len(open_) > room.folded:
        parts.append(Text(f"{len(open_) - room.folded} more rows are in the summary of the job."))
    for one in open_[: min(_MOST_COMMANDS, room.folded)]:
        if one.price is not None and one.price.words:
            parts.append(Command(_words(one.price.words)))
        elif one.price is not None and one.price.margin is not None:
            wider = f"--margin {100.0 * one.price.margin:.0f}%"
            undecidable = "more than a day, or more than 1,000 further pairs, needed"
            parts.append(Text(f"{_short(one.name)}: {undecidable}; with {wider} it is unchanged."))
    return Section(title, tuple(parts), folded=True)


def _method(found: Assessment, room: Room) -> Iterator[tuple[str, str]]:
    result = found.result
    yield "base", result.base or f"none: {_short(result.why_no_base or 'not found', _LONGEST_WHY)}"
    yield "head", result.head
    yield "limit, equivalence margin", f"{_percent(found.limit)}, {_percent(result.margin)}"
    every = "all benchmarks and repetitions together"
    yield "false alarms", f"at most {units.percent(result.false_alarms, 1)} over {every} (Bonferroni)"
    yield "method", "both commits in one job, interleaved pairs of processes, sequential test (torchstone ab)"
    again = [one.name for one in result.benchmarks if one.earlier]
    if again and room.folded:
        yield "measured again", ", ".join(_short(name) for name in again[:20])
    if found.control is not None:
        yield "control", f"{_change(found.control)} time: {found.control.verdict}"
    if result.elapsed_s is not None:
        yield "time", f"{_time(result.elapsed_s)} of {_time(result.within_s)}"
    for name, value in found.environment if room.folded else ():
        yield _short(name), _short(value, _LONGEST_WHY)


# ── words of a cell ─────────────────────────────────────────────────────────────────────────────────────────


def _change(one: Change) -> str:
    """Return "+4.1 % [+3.2 %, +5.0 %]"; of an interval wider than ±50 % its known end, or a dash."""
    ratio = one.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return units.MISSING
    if ratio.is_wide:
        return units.ratio(ratio.value, ratio.low, ratio.high) + ("×" if ratio.low > 1.0 or ratio.high < 1.0 else "")
    return f"{units.change(ratio.value)} [{units.change(ratio.low)}, {units.change(ratio.high)}]"


def _level(found: Assessment) -> str:
    levels = {one.ratio.level for one in found.changes if one.ratio is not None}
    return f" [{100.0 * levels.pop():.4g} % confidence interval]" if len(levels) == 1 else " [confidence interval]"


def _needed(one: Change) -> str:
    seconds = one.price.within_s if one.price is not None else None
    return _time(seconds) if seconds is not None else units.MISSING


def _time(seconds: float) -> str:
    return within_words(seconds).replace("m", " min").replace("s", " s")


def _number(value: int | None) -> str:
    return units.MISSING if value is None else str(value)


def _cost(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:.2f}"


def _percent(value: float) -> str:
    return f"{100.0 * value:.3g} %"


def _short(text: str, most: int = _LONGEST_NAME) -> str:
    """Return text on one line, without its middle where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[-(most // 2 - 1) :]}"
