"""A run: its Document; while it goes on, how far it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analysis.summary import summarize
from torchstone.core.errors import UsageError
from torchstone.report.document import Document
from torchstone.report.pages.address import Query, address, compare_address
from torchstone.report.pages.pictures import picture, pictures
from torchstone.report.pages.site import Answer, Site, redirect
from torchstone.storage.catalogue import before, beginning_with, cases_of, line_of
from torchstone.storage.index import CUT_OFF, is_stale
from torchstone.storage.progress import Progress, is_written
from torchstone.storage.query import Entry, stored
from torchstone.storage.summaries import CaseRow, RunLine

_MOST_LINKS = 12  # cases whose history is linked


class _Read(msgspec.Struct, frozen=True):
    """What the index tells of a run. `before`: the run by the same name before it; `stale`: its record has changed."""

    line: RunLine
    entry: Entry
    cases: tuple[CaseRow, ...]
    before: str | None
    stale: bool


def run_page(site: Site, query: Query, run_id: str) -> Answer:
    """Return the page of a run. `every=1`: every figure of every case; `live=0`: without polling."""
    site.store.freshen()
    found = _read(site, run_id)
    progress = _progress(site, found.line) if isinstance(found, _Read) else None
    if isinstance(found, _Read) and found.stale and progress is None:  # it may just have ended
        site.store.freshen(hurry=True)
        found = _read(site, run_id)
    if not isinstance(found, _Read):
        return _another(site, query, found, run_id)
    line, every = found.line, _is_every(query)
    earlier = compare_address([found.before, run_id]) if found.before is not None else None
    return site.show(
        "run.html", title=line.name, here="/runs", line=line, document=_document(site, found.entry, every=every),
        every=every, histories=_histories(found.cases), earlier=earlier, progress=progress,
        polls=query.get("live") != "0", pictures=pictures(f"/runs/{run_id}{'?every=1' * every}"),
    )  # fmt: skip


def _is_every(query: Query) -> bool:
    return query.get("every") == "1"


def _read(site: Site, run_id: str) -> _Read | tuple[str, ...]:
    """Return a run; where there is none of that id, the ids that begin so."""
    with site.store.reading() as connection:
        line, entry = line_of(connection, run_id), stored(connection, site.store.folder, run_id)
        if line is None or entry is None:
            return beginning_with(connection, run_id)
        stale = is_stale(connection, site.store.folder, run_id)
        return _Read(line, entry, cases_of(connection, run_id), before(connection, line), stale)


def live_part(site: Site, _query: Query, run_id: str) -> Answer:
    """Return how far a run is, as the part of its page that is fetched again and again.

    Once it has ended, the whole page is loaded again.
    """
    with site.store.reading() as connection:
        line = line_of(connection, run_id)
    if line is None:
        raise UsageError(f"no run {run_id}: its record is not there any more")
    progress = _progress(site, line)
    if progress is None:
        return Answer(b"", headers={"hx-refresh": "true"})
    return site.show("live.html", progress=progress, polls=True)


def run_picture(site: Site, query: Query, run_id: str, number: int) -> Answer:
    """Return a picture of a run's Document."""
    with site.store.reading() as connection:
        entry = stored(connection, site.store.folder, run_id)
    if entry is None:
        raise UsageError(f"no run {run_id}")
    every = _is_every(query)
    return picture(site, _state(entry, every=every), _document(site, entry, every=every), number)


def _another(site: Site, query: Query, ids: Sequence[str], word: str) -> Answer:
    """Return where the beginning of an id leads."""
    if len(ids) == 1:
        return redirect(address(f"/runs/{ids[0]}", *query.without_empty()))
    if ids:
        return site.show("several.html", 404, title="Several runs", here="/runs", word=word, ids=ids)
    return site.message("No such run", f"No run has the id {word}, or begins with it.", 404)


def _state(entry: Entry, *, every: bool) -> tuple[object, ...]:
    """Return what names the Document of a run, and changes when its record does."""
    row = entry.row
    return "run", row.run_id, row.status, row.trials, row.ok, len(entry.findings), every


def _document(site: Site, entry: Entry, *, every: bool) -> Document:
    return site.kept(_state(entry, every=every), lambda: site.document_of(summarize(entry), every=every))


def _progress(site: Site, line: RunLine) -> Progress | None:
    """Return how far a run is; None of one that has ended, or that was abandoned."""
    path = site.store.folder / "records" / f"{line.run_id}.jsonl"  # of an imported one it may be another: it is whole
    if line.status != CUT_OFF or not is_written(path, line.host):
        return None
    progress = site.following(path).look()
    return progress if progress.ended is None else None


def _histories(cases: Sequence[CaseRow]) -> list[tuple[str, str]]:
    """Return the address and the words of the histories of the Cases."""
    found = {
        f"/history/{case.case_id}": ", ".join(filter(None, (f"{case.task} {case.model}", case.settings)))
        for case in cases if case.counted
    }  # fmt: skip
    return list(found.items())[:_MOST_LINKS]
