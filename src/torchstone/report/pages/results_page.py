"""Results that are no runs, as `--save` keeps them: which there are, and each as its command said it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import UsageError
from torchstone.report.pages.address import Query
from torchstone.report.pages.site import Answer, Site
from torchstone.report.pictures import without_charts
from torchstone.report.results import KINDS, read_result, result_path
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized


class _Row(NamedTuple):
    kind: str
    written_utc: str
    headline: str


def results_page(site: Site, _query: Query) -> Answer:
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


def result_page(site: Site, _query: Query, kind: str) -> Answer:
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
