"""The lists of runs, findings and results: filtered, searched, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.answers import answered
from torchstone.report.pages.site import Reply, Site, redirect
from torchstone.report.pictures import without_charts
from torchstone.report.results import KINDS, read_result, result_path
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import Key, Wanted, checks, devices, finding_lines, line_of, models, run_lines
from torchstone.storage.progress import is_written
from torchstone.storage.rows import CUT_OFF, RunLine

_LENGTH = 50  # rows of a page
_MOST_CHOSEN = 26


def runs_page(site: Site, query: Query) -> Reply:
    """Return the page. What a form left empty leaves the address."""
    if query.has_empty:
        return redirect(address("/runs", *query.without_empty()))
    site.store.freshen()
    wanted, before = query.wanted(), query.before()
    with site.store.reading() as connection:
        found = run_lines(connection, wanted, before, _LENGTH + 1)
        chosen = [line for one in query.all("run")[:_MOST_CHOSEN] if (line := line_of(connection, one)) is not None]
        offered = models(connection), devices(connection)
        answers = {line.run_id: answered(connection, line.run_id) for line in (*chosen, *found[:_LENGTH])}
    shown = [line for line in found[:_LENGTH] if line not in chosen]
    older = _key(found[_LENGTH - 1]) if len(found) > _LENGTH else None
    return site.show(
        "runs.html",
        wanted=wanted,
        rows=shown,
        chosen=chosen,
        older=older,
        newest=before is None,
        running=_running(site, [*chosen, *shown]),
        tasks=[str(task) for task in Task],
        verdicts=[str(one) for one in Verdict],
        is_filtered=wanted != Wanted(),
        title=localized("Runs"),
        here="/runs",
        models=offered[0],
        devices=offered[1],
        answers=answers,
    )


def _key(line: RunLine) -> str:
    return str(Key(line.started_utc, line.run_id))


def _running(site: Site, lines: Sequence[RunLine]) -> set[str]:
    """Return the ids of those that are being measured now."""
    unfinished = [line for line in lines if line.status == CUT_OFF]
    if not isinstance(site.store.place, Path):
        return set()
    records = site.store.place / "records"
    return {line.run_id for line in unfinished if is_written(records / f"{line.run_id}.jsonl", line.host)}


def findings_page(site: Site, query: Query) -> Reply:
    """Return the page. What a form left empty leaves the address."""
    if query.has_empty:
        return redirect(address("/findings", *query.without_empty()))
    site.store.freshen()
    wanted, before = query.wanted(), query.before()
    with site.store.reading() as connection:
        found = finding_lines(connection, wanted, before, _LENGTH + 1)
        offered = checks(connection)
    last = found[_LENGTH - 1] if len(found) > _LENGTH else None
    return site.show(
        "findings.html",
        title=localized("Findings"),
        here="/findings",
        wanted=wanted,
        rows=found[:_LENGTH],
        checks=offered,
        severities=[str(one) for one in Severity],
        newest=before is None,
        is_filtered=wanted != Wanted(),
        older=str(Key(last.started_utc, str(last.id))) if last is not None else None,
    )


class _Row(NamedTuple):
    kind: str
    written_utc: str
    headline: str


def results_page(site: Site, _query: Query) -> Reply:
    """Return the list of results, the newest first."""
    rows = []
    for kind in KINDS:
        if (path := _path(site, kind)) is not None:
            written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
            try:
                headline = in_spoken_language(read_result(path)[1]).headline or ""
            except UsageError as fault:
                headline = str(fault)
            rows.append(_Row(kind, written, headline))
    rows.sort(key=lambda row: row.written_utc, reverse=True)
    return site.show("results.html", title=localized("Results"), here="/results", rows=rows)


def result_page(site: Site, _query: Query, kind: str) -> Reply:
    """Return the page of a result. Raises UsageError where there is none of that kind, or none that can be read."""
    path = _path(site, kind) if kind in KINDS else None
    if path is None:
        raise UsageError(f"no result {kind}: torchstone {kind.replace('_', ' ')} --save keeps one")
    document = without_charts(in_spoken_language(read_result(path)[1]))
    return site.show("result.html", title=document.title, here="/results", document=document)


def _path(site: Site, kind: str) -> Path | None:
    """Return the file of a kind; None where there is none, or a link, which is not followed."""
    place = site.store.place
    if not isinstance(place, Path):
        return None
    path = result_path(place, kind)
    linked = path.is_symlink() or path.parent.is_symlink()
    return path if path.is_file() and not linked else None
