"""A Document as slides: 16:9, with native tables that can be edited, and notes that say how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.charts.vega_lite import Spec
from torchstone.report.document import Chart, Document
from torchstone.report.translation.spoken import speaking


class Pptx:
    """Slides to show and to edit."""

    describes = "PowerPoint slides, with tables that can be edited and speaker notes"
    suffix = ".pptx"

    def render(self, document: Document) -> bytes:
        """Return the file. Raises MissingError without python-pptx."""
        from torchstone.report.renderers.pptx.drawing import presentation  # `list` describes all formats, draws none
        from torchstone.report.renderers.pptx.outline import slides

        with speaking(document.language):
            return presentation(slides(document), document.title)

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `render` draws of the charts of a Document."""
        from torchstone.report.renderers.pptx.flow import specifications

        return (spec for chart in charts for spec in specifications(chart))


RENDERER = Pptx()
