"""The pictures of a Document as PNG files in a folder: for slides, papers and pages of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.core.charts.vega_lite import Spec, vega_lite
from torchstone.report.document import Chart, Document, Renderer


class Png(Renderer):
    """A file a picture."""

    describes = "the pictures, a PNG file each in a folder (needs vl-convert-python)"
    suffix = ".zip"
    draws = True
    folder = "_pictures"

    def files(self, document: Document) -> Mapping[str, bytes]:
        """Return the pictures by the names of their files. Raises MissingError without vl-convert."""
        from torchstone.report.pictures import drawn

        return drawn(document, (".png",))

    def render(self, document: Document) -> bytes:
        """Return all of them in one ZIP file, where a folder cannot be: the same bytes for the same Document."""
        import io
        import zipfile

        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, data in self.files(document).items():
                archive.writestr(zipfile.ZipInfo(name), data)  # of 1980, whenever it is written
        return packed.getvalue()

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield what `files` draws of the charts of a Document."""
        return (vega_lite(chart.picture) for chart in charts)


RENDERER = Png()
