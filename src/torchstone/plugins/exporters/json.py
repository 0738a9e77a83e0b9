"""The whole run as one JSON document, with its rows: complete, and `torchstone import` reads it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.core.schema.run_document import document_bytes
from torchstone.plugins.protocols import Exporter


class JsonExporter(Exporter):
    """Writes the document of a run; figures under `rows`, raw values under `trials`."""

    describes = "one JSON document: the whole run, raw values and figures"
    suffix = ".json"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        path.write_bytes(document_bytes(run, rows))


PLUGIN: Exporter = JsonExporter()
