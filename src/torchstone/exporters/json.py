"""The whole run as one JSON document, with its rows: complete, and `torchstone import` reads it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.extend import Exporter
from torchstone.terms.axis import Scalar
from torchstone.terms.document import document_bytes
from torchstone.terms.run import Run


class Json:
    """Writes the document of a run; figures under `rows`, raw values under `trials`."""

    describes = "one JSON document: the whole run, raw values and figures"
    suffix = ".json"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        path.write_bytes(document_bytes(run, rows))


PLUGIN: Exporter = Json()
