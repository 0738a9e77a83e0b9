"""The list of runs: filtered, searched, a page at a time, with boxes to choose some of them for a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Verdict
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.answers import answered
from torchstone.report.pages.site import Answer, Site, redirect
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import Key, Wanted, devices, line_of, models, run_lines
from torchstone.storage.progress import is_written
from torchstone.storage.rows import CUT_OFF, RunLine

LENGTH = 50  # rows of a page
_MOST_CHOSEN = 26


def runs_page(site: Site, query: Query) -> Answer:
    """Return the page. What a form left empty leaves the address."""
    if query.has_empty:
        return redirect(address("/runs", *query.without_empty()))
    site.store.freshen()
    wanted, before = query.wanted(), query.before()
    with site.store.reading() as connection:
        found = run_lines(connection, wanted, before, LENGTH + 1)
        chosen = [line for one in query.all("run")[:_MOST_CHOSEN] if (line := line_of(connection, one)) is not None]
        offered = models(connection), devices(connection)
        answers = {line.run_id: answered(connection, line.run_id) for line in (*chosen, *found[:LENGTH])}
    shown = [line for line in found[:LENGTH] if line not in chosen]
    older = _key(found[LENGTH - 1]) if len(found) > LENGTH else None
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
