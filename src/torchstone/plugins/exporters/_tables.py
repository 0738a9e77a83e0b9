"""Rows as files: CSV, JSON lines and Parquet, a row a case, a trial or a value; and the whole run as JSON."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.core.schema.run_document import document_bytes
from torchstone.plugins.protocols import Exporter

# ── csv ──────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── json ─────────────────────────────────────────────────────────────────────────────────────────────────────


class JsonExporter(Exporter):
    """Writes the document of a run; figures under `rows`, raw values under `trials`."""

    describes = "one JSON document: the whole run, raw values and figures"
    suffix = ".json"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        path.write_bytes(document_bytes(run, rows))


# ── jsonl ────────────────────────────────────────────────────────────────────────────────────────────────────


class JsonLines(Exporter):
    """Writes a row a line. JSON has no NaN: it is written as protocol buffers do, "NaN", "Infinity", "-Infinity"."""

    describes = "JSON lines, one object per case"
    suffix = ".jsonl"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        with path.open("wb") as file:
            for row in rows:
                file.write(msgspec.json.encode({key: _json_value(value) for key, value in row.items()}) + b"\n")


def _json_value(value: Scalar) -> Scalar:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# ── parquet ──────────────────────────────────────────────────────────────────────────────────────────────────


class ParquetExporter(Exporter):
    """Writes rows through pyarrow, which is imported only here."""

    describes = "Parquet, one row per case (needs pyarrow)"
    suffix = ".parquet"
    folder = "data"

    def write(self, run: Run, rows: Sequence[Mapping[str, Scalar]], path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as fault:
            raise MissingError("parquet needs pyarrow: pip install 'torchstone[data]'") from fault
        columns = {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}
        pq.write_table(pa.table(columns), path)


def _column(values: list[Scalar]) -> list[Scalar]:
    """Return values of one type: an axis may hold words in one workload and numbers in another."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float} or (kinds == {int} and any(isinstance(v, int) and abs(v) >= 2**63 for v in values)):
        return [None if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [None if value is None else str(value) for value in values]


PLUGINS: Mapping[str, Exporter] = {
    "csv": CsvExporter(),
    "json": JsonExporter(),
    "jsonl": JsonLines(),
    "parquet": ParquetExporter(),
}
