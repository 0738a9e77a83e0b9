"""Tables for data frames: Parquet, with a type for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torchstone.core.errors import MissingError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.run import Run
from torchstone.plugins.protocols import Exporter


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


PLUGIN: Exporter = ParquetExporter()
