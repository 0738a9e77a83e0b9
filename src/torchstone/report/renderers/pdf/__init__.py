"""A Document as PDF: A4 pages, tagged for screen readers (PDF/UA-1), with its fonts and attachments in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.charts.vega_lite import Spec
from torchstone.report.document import Chart, Document


class Pdf:
    """Pages to print and to mail."""

    describes = "PDF, A4 pages to print and to mail, tagged for screen readers"
    suffix = ".pdf"

    def render(self, document: Document) -> bytes:
        """Return the file. Raises MissingError without typst."""
        from torchstone.report.renderers.pdf.typesetting import typeset  # `list` describes all formats and draws none

        return typeset(document)

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `render` draws of the charts of a Document."""
        from torchstone.report.renderers.pdf.page_pictures import specifications

        return (spec for chart in charts for spec in specifications(chart))


RENDERER = Pdf()
