"""Histories: the cases that were measured, and how a figure of one moved over all runs, with what changed."""

from __future__ import annotations

import msgspec

from torchstone.analysis.recommend.case_history import Histories, histories_of
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.case import Task
from torchstone.core.schema.metric import FIGURES
from torchstone.report.charts.history import history_chart, label
from torchstone.report.document import Chart, Document
from torchstone.report.documents.history import history_document
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.answers import course, item_of
from torchstone.report.pages.pictures import picture, pictures
from torchstone.report.pages.site import Reply, Site, redirect
from torchstone.report.pictures import charts_of
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import Key, Wanted, devices, models, series_lines
from torchstone.storage.measured import measured_of_case

_LENGTH = 50  # rows of a page
_NEWEST = 200  # runs of a case that are looked at: more change points than these show take seconds to look for
_USUAL = "throughput"
_SAYS = "Each run with its interval, the levels, and where they changed; the tables below have the same values"


def series_page(site: Site, query: Query) -> Reply:
    """Return the list of cases, those that were measured last first."""
    if query.has_empty:
        return redirect(address("/history", *query.without_empty()))
    site.store.freshen()
    wanted, before = query.wanted(), query.before()
    with site.store.reading() as connection:
        found = series_lines(connection, wanted, before, _LENGTH + 1)
        offered = models(connection), devices(connection)
        courses = {line.id: course(connection, line.case_id, line.device_name, line.host) for line in found[:_LENGTH]}
        items = {line.case_id: item_of(connection, line.case_id) for line in found[:_LENGTH]}
    last = found[_LENGTH - 1] if len(found) > _LENGTH else None
    return site.show(
        "series.html",
        wanted=wanted,
        rows=found[:_LENGTH],
        newest=before is None,
        older=str(Key(last.newest_utc, str(last.id))) if last is not None else None,
        title=localized("History"),
        here="/history",
        tasks=[str(task) for task in Task],
        is_filtered=wanted != Wanted(),
        models=offered[0],
        devices=offered[1],
        courses=courses,
        items=items,
    )


def history_page(site: Site, query: Query, case_id: str) -> Reply:
    """Return the history of a Case on every machine. `figure`: which one; `suspect=1`: with SUSPECT runs."""
    site.store.freshen()
    told, _ = _histories(site, query, case_id)
    one = told.histories[0] if told.histories else None
    pairs = [pair for pair in query.without_empty() if pair[0] in ("figure", "suspect")]
    document = _document(told)
    return site.show(
        "history.html",
        title=label(one) if one is not None else localized("Case {0}", case_id),
        here="/history",
        case_id=case_id,
        document=document,
        metric=told.metric,
        suspect=_is_suspect(query),
        metrics=FIGURES,
        most=_NEWEST,
        runs=told.runs,
        pictures=pictures(address(f"/history/{case_id}", *pairs), document),
    )


def history_picture(site: Site, query: Query, case_id: str, name: str) -> Reply:
    """Return a picture of a history."""
    told, key = _histories(site, query, case_id)
    return picture(site, key, _document(told), name)


def _document(told: Histories) -> Document:
    """Return the Document of histories, with their picture behind its first part, which is the answer."""
    document = history_document(told)
    if not charts_of(document) and any(len(one.points) > 1 for one in told.histories):
        shown = Chart("history", _SAYS, history_chart(told.histories))
        document = msgspec.structs.replace(document, parts=(*document.parts[:1], shown, *document.parts[1:]))
    return in_spoken_language(document)


def _is_suspect(query: Query) -> bool:
    return query.get("suspect") == "1"


def _histories(site: Site, query: Query, case_id: str) -> tuple[Histories, object]:
    """Return the histories of a Case on each machine, and what names them and changes when a run is added."""
    metric, suspect = query.get("figure") or _USUAL, _is_suspect(query)
    if metric not in FIGURES:
        raise unknown("figure", metric, FIGURES)
    with site.store.reading() as connection:
        readings = measured_of_case(connection, case_id, (metric,), _NEWEST)
    if not readings:
        raise UsageError(f"no stored run has a result of the case {case_id}")
    key = (
        "history",
        case_id,
        metric,
        suspect,
        len(readings),
        readings[-1].run_id,
        sum(one.trials for one in readings),
    )
    found = site.kept(key, lambda: histories_of(readings, metric, suspect=suspect))
    return Histories(metric, found, len(readings)), key
