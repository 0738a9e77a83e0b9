"""A run: its Document; while it goes on, how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.report.document import CommandLine, Document, Section, Text
from torchstone.report.documents.run import pictured_part, run_pictures
from torchstone.report.pages.address import Query, address, compare_address
from torchstone.report.pages.pictures import picture, pictures
from torchstone.report.pages.site import Reply, Site, redirect
from torchstone.report.pictures import charts_of
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import before, beginning_with, cases_of, line_of
from torchstone.storage.index import is_stale
from torchstone.storage.progress import RunProgress, is_written
from torchstone.storage.query import Entry, read_run, stored
from torchstone.storage.rows import CUT_OFF, CaseRow, RunLine

_MOST_BYTES = 64 * 2**20  # of a record that is drawn; more takes longer than people wait
_CASES = 32  # whose every figure is on one page
_DIGITS = 10  # of a number in an address
_MOST_LINKS = 12  # cases whose history is linked


class _Read(msgspec.Struct, frozen=True):
    """What the index tells of a run. `before`: the run by the same name before it; `stale`: its record has changed."""

    line: RunLine
    entry: Entry
    cases: tuple[CaseRow, ...]
    before: str | None
    stale: bool


class Turns(msgspec.Struct, frozen=True):
    """Which cases of a run are on the page, from 1, of how many, and the addresses of those before and behind them."""

    first: int
    last: int
    cases: int
    before: str | None
    behind: str | None


def run_page(site: Site, query: Query, run_id: str) -> Reply:
    """Return the page of a run. `every=1`: every figure of the cases behind `from`; `live=0`: without polling."""
    site.store.freshen()
    found = _read(site, run_id)
    progress = _progress(site, found.line) if isinstance(found, _Read) else None
    if isinstance(found, _Read) and found.stale and progress is None:  # it may just have ended
        site.store.freshen(hurry=True)
        found = _read(site, run_id)
    if not isinstance(found, _Read):
        return _another(site, query, found, run_id)
    line, asked = found.line, _first_whole_case(query)
    document = _document(site, found.entry, asked)
    earlier = compare_address([found.before, run_id]) if found.before is not None else None
    return site.show(
        "run.html",
        title=line.name,
        here="/runs",
        line=line,
        document=document,
        every=asked is not None,
        cases=_turns(run_id, asked, len(found.entry.head.plan.cases)),
        histories=_histories(found.cases),
        earlier=earlier,
        progress=progress,
        polls=query.get("live") != "0",
        left_s=_left_s(progress),
        pictures=pictures(f"/runs/{run_id}{'?every=1' * (asked is not None)}", document),
    )


def _first_whole_case(query: Query) -> int | None:
    """Return the first of the cases whose every figure is asked for, from 0; None where the main figures are."""
    if query.get("every") != "1":
        return None
    first = query.get("from")
    return max(0, int(first) - 1) if first.isascii() and first.isdecimal() and len(first) < _DIGITS else 0


def _turns(run_id: str, first: int | None, cases: int) -> Turns | None:
    """Return how to turn the pages of a run's cases; None where all of them are on one."""
    if first is None or cases <= _CASES:
        return None

    def page(number: int) -> str:
        return address(f"/runs/{run_id}", ("every", "1"), ("from", str(number + 1)))

    last = min(cases, first + _CASES)
    before = page(max(0, first - _CASES)) if first > 0 else None
    return Turns(first + 1, last, cases, before, page(last) if last < cases else None)


def _read(site: Site, run_id: str) -> _Read | tuple[str, ...]:
    """Return a run; where there is none of that id, the ids that begin so."""
    with site.store.reading() as connection:
        line, entry = line_of(connection, run_id), stored(connection, site.store.place, run_id)
        if line is None or entry is None:
            return beginning_with(connection, run_id)
        stale = is_stale(connection, site.store.place, run_id)
        return _Read(line, entry, cases_of(connection, run_id), before(connection, line), stale)


def live_part(site: Site, _query: Query, run_id: str) -> Reply:
    """Return how far a run is, as the part of its page that is fetched again and again.

    Once it has ended, the whole page is loaded again.
    """
    with site.store.reading() as connection:
        line = line_of(connection, run_id)
    if line is None:
        raise UsageError(f"no run {run_id}: its record is not there any more")
    progress = _progress(site, line)
    if progress is None:
        return Reply(b"", headers={"hx-refresh": "true"})
    return site.show("live.html", progress=progress, polls=True)


def pictures_page(site: Site, _query: Query, run_id: str) -> Reply:
    """Return a page of a run's pictures, which the page of the run fetches when it is scrolled there."""
    entry = _entry(site, run_id)
    document = _drawn(site, entry)[0]
    return site.show(
        "run_pictures.html",
        title=localized("Pictures of {0}", entry.row.name),
        here="/runs",
        line=entry.row,
        document=document,
        pictures=pictures(f"/runs/{run_id}", document),
    )


def run_picture(site: Site, query: Query, run_id: str, name: str) -> Reply:
    """Return a picture of a run, or of what was told of it."""
    entry = _entry(site, run_id)
    asked = _first_whole_case(query)
    told = _document(site, entry, asked)
    if any(chart.name == name for chart in charts_of(told)):
        return picture(site, _state(entry, asked), told, name)
    document, key = _drawn(site, entry)
    return picture(site, key, document, name)


def _entry(site: Site, run_id: str) -> Entry:
    with site.store.reading() as connection:
        entry = stored(connection, site.store.place, run_id)
    if entry is None:
        raise UsageError(f"no run {run_id}")
    return entry


def _drawn(site: Site, entry: Entry) -> tuple[Document, object]:
    """Return a Document of nothing but the pictures of a run, and what names it and the state of its record.

    A file that a record names, such as that of a training's metrics, is not read.
    """
    try:
        found = entry.path.stat()
    except OSError as fault:
        raise UsageError(f"{entry.path.name} is not there any more: its pictures cannot be drawn") from fault
    if found.st_size > _MOST_BYTES:
        how = f"torchstone report {entry.row.run_id} --format html"
        return Document("", (Text(localized("The record is too large to draw on a page. Type:")), CommandLine(how))), ()
    key = "pictures", _state(entry, None), found.st_size, found.st_mtime_ns
    return site.kept(key, lambda: in_spoken_language(Document("", _pictures(_summary(site, entry), entry.path)))), key


def _pictures(summary: RunSummary, record: Path) -> tuple[Section, ...]:
    """Return the pictures of a run, the first of them below no title: the page has it."""
    found = run_pictures(summary, read_run(record, pictured_part(summary)))
    return tuple(msgspec.structs.replace(one, title=one.title if n else "") for n, one in enumerate(found))


def _another(site: Site, query: Query, ids: Sequence[str], word: str) -> Reply:
    """Return where the beginning of an id leads."""
    if len(ids) == 1:
        return redirect(address(f"/runs/{ids[0]}", *query.without_empty()))
    if ids:
        return site.show("several.html", 404, title=localized("Several runs"), here="/runs", word=word, ids=ids)
    return site.message("No such run", f"No run has the id {word}, or begins with it.", 404)


def _state(entry: Entry, asked: int | None) -> tuple[object, ...]:
    """Return what names the Document of a run, and changes when its record does."""
    return "run", entry.row.run_id, entry.stamp, asked


def _document(site: Site, entry: Entry, asked: int | None) -> Document:
    """Return the Document of a run. `asked`: the first of the cases with every figure; None: the main figures."""
    reported = (asked, asked + _CASES) if asked is not None else None
    return site.kept(
        _state(entry, asked),
        lambda: in_spoken_language(site.document_of(_summary(site, entry), every=asked is not None, reported=reported)),
    )


def _summary(site: Site, entry: Entry) -> RunSummary:
    return site.kept(("summary", _state(entry, None)), lambda: summarize(entry))


def _progress(site: Site, line: RunLine) -> RunProgress | None:
    """Return how far a run is; None of one that has ended, or that was abandoned."""
    place = site.store.place
    if line.status != CUT_OFF or not isinstance(place, Path):  # a team's store has what was pushed of it
        return None
    path = place / "records" / f"{line.run_id}.jsonl"  # of an imported one it may be another: it is whole
    if not is_written(path, line.host):
        return None
    progress = site.following(path).look()
    return progress if progress.ended is None else None


def _left_s(progress: RunProgress | None) -> float | None:
    """Return how long the trials that are left take, by those that ended last; None where that is not known."""
    if progress is None or not progress.planned or not progress.latest:
        return None
    each_s = sum(trial.duration_s for trial in progress.latest) / len(progress.latest)
    return each_s * max(0, progress.planned - progress.done)


def _histories(cases: Sequence[CaseRow]) -> list[tuple[str, str]]:
    """Return the address and the words of the histories of the Cases."""
    found = {
        f"/history/{case.case_id}": ", ".join(filter(None, (f"{case.task} {case.model}", case.settings)))
        for case in cases
        if case.counted
    }
    return list(found.items())[:_MOST_LINKS]
