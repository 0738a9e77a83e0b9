"""What a change does to the benchmarks of a repository, as a Document, and as a comment on a pull request.

The comment is Markdown that mentions, links and closes nothing, in GitHub's size. GitHub makes mentions and links of
`@name`, `#12`, `GH-12` and addresses in text after it has read the Markdown, so that a backslash before them does not
help; a zero-width space inside does. Two dollar signs would enclose a formula
(https://docs.github.com/en/get-started/writing-on-github, "Writing mathematical expressions").
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from torchstone.analysis.ci import (
    Assessment,
    BenchmarkChange,
    ChangeVerdict,
    CommitStep,
    Conclusion,
    Trace,
    why_text,
    within_words,
)
from torchstone.core import units
from torchstone.core.charts.vega_lite import without_middle
from torchstone.core.errors import UsageError
from torchstone.report.charts.history import commits_chart
from torchstone.report.document import Chart, Column, CommandLine, Document, Fields, Part, Role, Section, Table, Text
from torchstone.report.renderers.md import markdown
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized

_MOST_LINES = 15  # that are seen before anything is unfolded
_MOST_ROWS = 10
_MOST_COMMANDS = 10
_SHORT = 9  # digits of a commit
_SEEN = (ChangeVerdict.SLOWER, ChangeVerdict.FAILED, ChangeVerdict.NO_BASELINE, ChangeVerdict.FASTER)


class RowLimits(msgspec.Struct, frozen=True):
    """How much is said: rows that are seen at once (None: by the lines that are left), and rows of each fold."""

    seen: int | None = None
    folded: int = 1000


USUAL_ROOM = RowLimits()


def ci_document(found: Assessment, room: RowLimits = USUAL_ROOM) -> Document:
    """Return the counts and whether action is needed (its title), what was decided, and folded all else."""
    return Document(title(found), tuple(_parts(found, room)))


def _parts(found: Assessment, room: RowLimits) -> Iterator[Part]:
    yield Text(headline(found), Role.HEADLINE)
    notes = [note for note in (remark(found), changed_results(found)) if note]
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
        yield CommandLine(typed)
    yield from folds


def _circumstances(found: Assessment) -> str:
    """Return in one line how sure it is: the control, the device, the base, the pairs of processes."""
    told = []
    if found.floor is not None:
        told.append(f"control of this job (base against itself): ±{units.percent(found.floor, 1)}")
    devices = list(dict.fromkeys(one.device for one in found.changes if one.device))
    told += [", ".join(one_line(device) for device in devices[:2])] if devices else []
    base = found.result.base
    told.append(f"base {base[:_SHORT]} (merge base)" if base is not None else "no base")
    pairs = [one.pairs for one in found.changes if one.pairs]
    if pairs:
        few, many = min(pairs), max(pairs)
        told.append(f"{few if few == many else f'{few} to {many}'} interleaved pairs of processes each")
    text = " · ".join(told)
    return text[0].upper() + text[1:]


# ── tables and what is folded ───────────────────────────────────────────────────────────────────────────────


def _table(changes: Sequence[BenchmarkChange], found: Assessment, *, priced: bool = False) -> Table:
    columns = [
        Column("benchmark", tuple(one_line(one.name) for one in changes), left=True, shorten=True),
        Column("base", tuple(_step(one, of_base=True) for one in changes)),
        Column("head", tuple(_step(one) for one in changes)),
        Column(f"change in time{_level(found)}", tuple(change_words(one) for one in changes)),
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


def _folds(found: Assessment, room: RowLimits) -> Iterator[Section]:
    if open_ := found.of(ChangeVerdict.UNDECIDED):
        yield _undecided(open_, found, room)
    if same := found.of(ChangeVerdict.UNCHANGED):
        yield _fold(f"{len(same)} unchanged", same, found, room)
    yield Section("environment, method", (Fields(tuple(_method(found, room))),), folded=True)


def _fold(heading: str, changes: Sequence[BenchmarkChange], found: Assessment, room: RowLimits) -> Section:
    parts: list[Part] = [_table(changes[: room.folded], found)] if room.folded else []
    if len(changes) > room.folded:
        parts.append(Text(f"{len(changes) - room.folded} more rows are in the summary of the job."))
    return Section(heading, tuple(parts), folded=True)


def _undecided(open_: Sequence[BenchmarkChange], found: Assessment, room: RowLimits) -> Section:
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
            parts += [CommandLine(words)] if words != shown else []
        elif one.price is not None and one.price.margin is not None:
            wider = f"--margin {100.0 * one.price.margin:.0f}%"
            undecidable = "more than a day, or more than 1,000 further pairs, needed"
            parts.append(Text(f"{one_line(one.name)}: {undecidable}; with {wider} it is unchanged."))
    return Section(heading, tuple(parts), folded=True)


def _method(found: Assessment, room: RowLimits) -> Iterator[tuple[str, str]]:
    result = found.result
    yield "base", result.base or f"none: {reason(result.why_no_base or 'not found')}"
    yield "head", result.head
    yield "limit, equivalence margin", f"{limit_percent(found.limit)}, {limit_percent(result.margin)}"
    every = "all benchmarks and repetitions together"
    yield "false alarms", f"at most {units.percent(result.false_alarms, 1)} over {every} (Bonferroni)"
    yield "method", "both commits in one job, interleaved pairs of processes, sequential test (torchstone ab)"
    again = [one.name for one in result.benchmarks if one.earlier]
    if again and room.folded:
        yield "measured again", ", ".join(one_line(name) for name in again[:20])
    if found.control is not None:
        yield "control", f"{change_words(found.control)}: {found.control.verdict}"
    if result.elapsed_s is not None:
        yield "time", f"{units.quantity(result.elapsed_s, 's')} of {units.quantity(result.within_s, 's')}"
    for name, value in found.environment if room.folded else ():
        yield one_line(name), reason(value)


# ── words of a cell ─────────────────────────────────────────────────────────────────────────────────────────


def _level(found: Assessment) -> str:
    levels = {one.ratio.level for one in found.changes if one.ratio is not None}
    return f" [{100.0 * levels.pop():.4g} % confidence interval]" if len(levels) == 1 else " [confidence interval]"


def _step(one: BenchmarkChange, *, of_base: bool = False) -> str:
    """Return the time of a step of the change, or of the base by the ratio of the pairs."""
    if one.step_time_s is None or (of_base and one.ratio is None):
        return units.MISSING
    by = one.ratio.value if of_base and one.ratio is not None else 1.0
    return units.quantity(one.step_time_s / by, "s")


def _needed(one: BenchmarkChange) -> str:
    seconds = one.price.within_s if one.price is not None else None
    return _time(seconds) if seconds is not None else units.MISSING


def _time(seconds: float) -> str:
    return within_words(seconds).replace("m", " min").replace("s", " s")


def _number(value: int | None) -> str:
    return units.MISSING if value is None else str(value)


def _cost(value: float | None) -> str:
    return units.MISSING if value is None else f"{value:.2f}"


# ── the title and the answer ────────────────────────────────────────────────────────────────────────────────


_LONGEST_NAME, _LONGEST_WHY = 80, 200
_MOST_OTHERS = 3
_ENDINGS = {
    Conclusion.PASSED: "no action needed",
    Conclusion.ACCEPTED: "accepted",
    Conclusion.SLOWER: "action needed",
    Conclusion.FAILED: "not all were measured: action needed",
    Conclusion.NO_BASELINE: "not all were compared",
    Conclusion.UNDECIDED: "more measurements needed",
}


def title(found: Assessment) -> str:
    """Return the counts and what follows: "1 slower, 0 faster, 37 unchanged, 2 undecided — action needed"."""
    always = (ChangeVerdict.SLOWER, ChangeVerdict.FASTER, ChangeVerdict.UNCHANGED, ChangeVerdict.UNDECIDED)
    told = [f"{found.counts[verdict]} {verdict}" for verdict in always]
    if found.counts[ChangeVerdict.NO_BASELINE]:
        told.append(f"{found.counts[ChangeVerdict.NO_BASELINE]} without a baseline")
    if found.counts[ChangeVerdict.FAILED]:
        told.append(f"{found.counts[ChangeVerdict.FAILED]} failed")
    ending = _ENDINGS[found.conclusion] if found.is_reliable else "not reliable"
    return f"torchstone: {', '.join(told)} — {ending}"


def headline(found: Assessment) -> str:
    """Return the answer in one sentence or two."""
    if not found.is_reliable and found.control is not None:
        differs = f"the base differs from itself in this job: {_in_time(found.control)}"
        return f"Not reliable: {differs}. Run it again."
    if found.conclusion in (Conclusion.SLOWER, Conclusion.ACCEPTED):
        return _slower(found)
    if failed := found.of(ChangeVerdict.FAILED):
        return f"{one_line(failed[0].name)} was not measured: {reason(why_text(failed[0]))}"
    if without := found.of(ChangeVerdict.NO_BASELINE):
        return f"No baseline for {len(without)} of {len(found.changes)}: {reason(why_text(without[0]))}"
    if not found.changes:
        return "No baseline: there is no benchmark."
    faster = found.of(ChangeVerdict.FASTER)
    before = f"{_counted(faster)} faster: {_most(faster, faster[-1])}. " if faster else ""
    what = "change" if found.counts[ChangeVerdict.UNCHANGED] == len(found.changes) else "slowdown"
    proven = " is proven" if found.conclusion is Conclusion.UNDECIDED else ""
    told = f"{before}No {what} above {limit_percent(found.limit)}{proven}"
    ends = [one.ratio.high for one in found.changes if one.ratio is not None and one.ratio.high is not None]
    unknown = len(found.changes) - len(ends)
    if unknown:
        return f"{told}; nothing is known yet of {unknown} of {len(found.changes)}."
    return f"{told}; largest still possible {units.change(max(ends))} time." if max(ends) > 1.0 else f"{told}."


def remark(found: Assessment) -> str:
    """Return what the headline does not say of the label of an acceptance: that it has no reason, or that it counts."""
    given = found.acceptance
    if given is None or not found.is_reliable or most_slowed(found) is None or found.conclusion is Conclusion.ACCEPTED:
        return ""
    if given.reason:
        return f"What is slower was accepted: {reason(given.reason)}"
    return (
        f"The label {one_line(given.label)} has no reason: write one into the description, as a line: Slower because: …"
    )


def changed_results(found: Assessment) -> str:
    """Return which benchmarks compute something else than the base: their times are of other work; or nothing."""
    those = found.with_other_results
    first = those[0].other if those else None
    if first is None:
        return ""
    names = ", ".join(one_line(one.name) for one in those[:_MOST_OTHERS])
    more = f" and {len(those) - _MOST_OTHERS} more" if len(those) > _MOST_OTHERS else ""
    head, base = units.significant(first.head, 6), units.significant(first.base, 6)
    told = f"{first.what} {head}, of the base {base}"
    return f"Not the same computation: {names}{more}. First that differs: {told}. See that quality holds."


def command(found: Assessment) -> str:
    """Return what is worth typing: it shows the slowest again, or decides the one that is undecided; or nothing."""
    slowest = most_slowed(found)
    if slowest is not None:
        return shlex.join(slowest.command)
    undecided = found.of(ChangeVerdict.UNDECIDED)
    price = undecided[0].price if len(undecided) == 1 else None
    return shlex.join(price.words) if price is not None else ""


def most_slowed(found: Assessment) -> BenchmarkChange | None:
    """Return the benchmark that is slower by most, of those beyond the limit."""
    return next((one for one in found.of(ChangeVerdict.SLOWER) if one.beyond), None)


def _slower(found: Assessment) -> str:
    beyond = [one for one in found.of(ChangeVerdict.SLOWER) if one.beyond]
    told = f"{_counted(beyond)} slower by more than {limit_percent(found.limit)}: {_most(beyond, beyond[0])}."
    if found.conclusion is Conclusion.ACCEPTED and found.acceptance is not None:
        return f"{told} Accepted: {reason(found.acceptance.reason)}"
    return told


def _counted(those: Sequence[BenchmarkChange]) -> str:
    return "1 benchmark is" if len(those) == 1 else f"{len(those)} benchmarks are"


def _most(those: Sequence[BenchmarkChange], one: BenchmarkChange) -> str:
    return f"{'most of all ' if len(those) > 1 else ''}{one_line(one.name)}, {_in_time(one)}"


# ── words of a cell ─────────────────────────────────────────────────────────────────────────────────────────


def change_words(one: BenchmarkChange, of: str = "") -> str:
    """Return "+4.1 % [+3.2 %, +5.0 %]"; of an interval wider than ±50 % its known end, or a dash."""
    ratio = one.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return units.MISSING
    if not ratio.is_wide:
        return f"{units.change(ratio.value)}{of} [{units.change(ratio.low)}, {units.change(ratio.high)}]"
    known = units.ratio(ratio.value, ratio.low, ratio.high)
    return known if known == units.MISSING else f"{known}×{of}"


def _in_time(one: BenchmarkChange) -> str:
    """Return the same within a sentence: "+4.1 % time [+3.2 %, +5.0 %]"."""
    return change_words(one, " time")


def limit_percent(value: float) -> str:
    """Return a limit or margin: "2 %", "2.5 %"."""
    return f"{100.0 * value:.3g} %"


def one_line(text: str, most: int = _LONGEST_NAME) -> str:
    """Return text on one line, without its middle where it is longer."""
    return without_middle(text, most)


def reason(why: str | None) -> str:
    """Return why something failed or was accepted, on one line."""
    return one_line(why or "no reason given", _LONGEST_WHY)


# ── the history of a branch ─────────────────────────────────────────────────────────────────────────────────


_MOST_PICTURES = 50
_MOST_COMMITS = 200
_SHORT_COMMIT, _LONGEST_ROW = 9, 80


def ci_history_document(traces: Sequence[Trace], commits: int) -> Document:
    """Return what drifted, a table of all benchmarks, and of each a picture and its newest commits, folded.

    `commits`: in the history, measured or not.
    """
    return Document("History of the benchmarks", tuple(_history_parts(traces, commits)))


def _history_parts(traces: Sequence[Trace], commits: int) -> Iterator[Part]:
    drifted = [one for one in traces if one.drift is not None]
    if not traces:
        yield Text("No benchmark has a ratio yet.", Role.HEADLINE)
        return
    those = f"{len(traces)} benchmark{'s' * (len(traces) != 1)} over {commits} commit{'s' * (commits != 1)}"
    if drifted:
        worst = max(drifted, key=lambda one: one.drift.ratio.value if one.drift is not None else 0.0)
        how = f"{len(drifted)} of {those}, most of all {_name(worst)}: {_drift(worst)}"
        yield Text(f"Slow drift: {how}.", Role.HEADLINE)
    else:
        yield Text(f"No slow drift is proven beyond the limit: {those}.", Role.HEADLINE)
    yield _overview(sorted(traces, key=lambda one: one.drift is None))
    yield Text(
        "Each commit is compared with the one before in one job, and the ratios are multiplied: no machine is compared "
        "with another. After a gap, a commit that was not measured, the product begins again.",
        Role.NOTE,
    )
    for place, trace in enumerate(traces):
        yield _one(trace, place)


def _overview(traces: Sequence[Trace]) -> Table:
    last = [trace.steps[-1] for trace in traces]
    counted = [Counter(step.point.verdict for step in trace.steps) for trace in traces]
    return Table.of(
        Column("benchmark", tuple(map(_name, traces)), left=True, shorten=True),
        Column("commits", tuple(str(len(trace.steps)) for trace in traces)),
        Column("slower", tuple(str(one["slower"]) for one in counted)),
        Column("faster", tuple(str(one["faster"]) for one in counted)),
        Column("newest commit", tuple(map(_own, last))),
        Column("since the last gap [95 % confidence interval]", tuple(map(_total, last))),
        Column("drift", tuple(map(_drift, traces)), left=True),
    )


def _one(trace: Trace, place: int) -> Section:
    parts: list[Part] = []
    if place < _MOST_PICTURES and len(trace.steps) > 1:
        newest = trace.steps[-1]
        says = f"{_name(trace)}: time over {len(trace.steps)} commits; now {_total(newest)}"
        parts.append(Chart(f"history_{place + 1}_{_file_name(trace.name)}", says, commits_chart(trace)))
    newest_first = trace.steps[: -_MOST_COMMITS - 1 : -1]
    parts.append(
        Table.of(
            Column("commit", tuple(step.total.run_id[:_SHORT_COMMIT] for step in newest_first), left=True),
            Column("committed", tuple(step.total.started_utc[:19] for step in newest_first), left=True),
            Column("change in time", tuple(map(_own, newest_first))),
            Column("verdict", tuple(step.point.verdict for step in newest_first), left=True),
            Column("since the last gap [95 % confidence interval]", tuple(map(_total, newest_first))),
            Column("step time", tuple(units.quantity(step.point.step_time_s, "s") for step in newest_first), rank=1),
        )
    )
    return Section(_name(trace), tuple(parts), folded=True)


def _own(step: CommitStep) -> str:
    """Return the change by one commit, with its interval at its own level."""
    return _change(step.point.ratio, step.point.low, step.point.high)


def _total(step: CommitStep) -> str:
    return _change(step.total.value, step.total.low, step.total.high)


def _drift(trace: Trace) -> str:
    if trace.drift is None:
        return units.MISSING
    ratio = trace.drift.ratio
    interval = f"[{units.change(ratio.low or 0.0)}, {units.change(ratio.high or 0.0)}]"
    return f"{units.change(ratio.value)} {interval} in {ratio.trials} commits"


def _change(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return units.MISSING
    return f"{units.change(value)} [{units.change(low)}, {units.change(high)}]"


def _name(trace: Trace) -> str:
    line = " ".join(trace.name.split())
    return line if len(line) <= _LONGEST_ROW else f"{line[:40]}…{line[-39:]}"


def _file_name(name: str) -> str:
    """Return a part of a file's name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "benchmark"


MOST_BYTES = 60_000  # of a comment; GitHub refuses more than 65,536 characters
MOST_SUMMARY_BYTES = 1_000_000  # of a job's summary; GitHub refuses more than 1 MiB
_ROWS = (1000, 300, 100, 50, 20, 10, 5, 2)
_RESERVED = 300  # bytes for the marker and what stands around a link
_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._]|-(?!-)){0,63}", re.ASCII)
_FENCE = re.compile(r"`{3,}")
_BREAK = "&#8203;"
# In one pass: the space that is put in is an entity with a number of its own.
_LINKING = re.compile(r"@(?=[\w-])|(?:#|\bGH-)(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


def marker(key: str) -> str:
    """Return the hidden line by which a comment is found again. Raises UsageError for a key that cannot be in one."""
    if not _KEY.fullmatch(key):
        raise UsageError(f"--key {key[:80]!r}: write letters, digits, dots, underscores or single dashes, 64 at most")
    return f"<!-- torchstone comment: {key} -->"


def comment_text(assessment: Assessment, key: str = "default", link: str | None = None) -> str:
    """Return the text of the comment, at most 60,000 bytes. `link`: to all results, shown where rows are left out."""
    return f"{marker(key)}\n{_fitting(assessment, MOST_BYTES, None, link)}"


def summary_text(assessment: Assessment) -> str:
    """Return the text for the summary of a job: the same with every row."""
    return _fitting(assessment, MOST_SUMMARY_BYTES, _ROWS[0], None)


def _fitting(found: Assessment, most_bytes: int, seen: int | None, link: str | None) -> str:
    """Return the text with as many rows as there is room for. `seen`: rows that are not folded, as in Room."""
    left_bytes = most_bytes - _RESERVED - len((link or "").encode())
    rooms = [RowLimits(seen if seen is None else min(seen, rows), rows) for rows in _ROWS]
    whole = _text(found, rooms[0])
    if len(whole.encode()) <= left_bytes:
        return whole
    for room in rooms[1:]:
        text = _text(found, room)
        if len(text.encode()) <= left_bytes:
            break
    else:
        text = _text(found, RowLimits(0, 0))
    return f"{text}\n[{localized('All results')}]({link})\n" if link else text


def _text(found: Assessment, room: RowLimits) -> str:
    return inert(
        f"##{markdown(in_spoken_language(ci_document(found, room)))}"
    )  # the page's title as a heading of the third level


def inert(text: str) -> str:
    """Return Markdown of ours in which no text becomes a mention, a reference to an issue, or a link by itself."""
    lines, fence = [], ""
    for line in text.split("\n"):
        if _FENCE.fullmatch(line) and fence in ("", line):
            fence = "" if fence else line
            lines.append(line)
        else:
            lines.append(line if fence else _inert_line(line))
    return "\n".join(lines)


def _inert_line(line: str) -> str:
    # An entity of a stranger's would be read before mentions are looked for; those in a fold's title are ours already.
    plain = line if line.startswith("<details><summary>") else line.replace("&", "&amp;")
    unlinked = _LINKING.sub(lambda found: f"{found[0]}{_BREAK}", plain)
    return unlinked.replace("$", "<span>$</span>")
