"""Tables for spreadsheets: CSV, one row a case, a trial or a value."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter


class CsvExporter(Exporter):
    """Writes rows with a header, UTF-8. Missing is an empty cell."""

    describes = "comma-separated values, one row per case"
    suffix = ".csv"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([_cell(name) for name in rows[0]] if rows else [])
            writer.writerows([_cell(value) for value in row.values()] for row in rows)


def _cell(value: Scalar) -> Scalar:
    """Return the cell. Text that a spreadsheet would run as a formula gets the apostrophe that marks it as text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else value


PLUGIN: Exporter = CsvExporter()
