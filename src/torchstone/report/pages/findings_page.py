"""What the checks found, over all runs, newest first."""

from __future__ import annotations

from torchstone.core.schema.estimate import Severity
from torchstone.report.pages.address import Query, address
from torchstone.report.pages.site import Answer, Site, redirect
from torchstone.report.translation.language import localized
from torchstone.storage.catalogue import Key, Wanted, checks, finding_lines

_LENGTH = 50  # rows of a page


def findings_page(site: Site, query: Query) -> Answer:
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
