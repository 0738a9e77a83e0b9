"""A Document as slides: 16:9, with native tables that can be edited, and notes that say how it was measured."""

from __future__ import annotations

from torchstone.report.document import Document
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


RENDERER = Pptx()
