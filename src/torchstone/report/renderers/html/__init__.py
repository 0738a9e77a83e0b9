"""A Document as one HTML file that loads nothing: it opens offline and from a mail's attachment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.charts.vega_lite import Spec
from torchstone.core.errors import MissingError
from torchstone.report.document import Chart, Document, Renderer
from torchstone.report.translation.language import in_language


class Html(Renderer):
    """One page with its styles, scripts, pictures and attachments. It is readable without scripts, too."""

    describes = "one web page that works offline: tables to sort and filter, pictures, light and dark"
    suffix = ".html"
    draws = True

    def render(self, document: Document) -> bytes:
        """Return the file. Raises MissingError without Jinja2."""
        try:
            import jinja2  # noqa: F401  # only whether it is here: what needs it is loaded below
        except ImportError as fault:
            raise MissingError("the page needs Jinja2: pip install 'torchstone[report]'") from fault
        from torchstone.report.renderers.html.page import page

        with in_language(document.language):
            return page(document).encode()

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `render` draws of the charts of a Document."""
        from torchstone.report.renderers.html.charts import chart_specifications

        return chart_specifications(charts)


RENDERER = Html()
