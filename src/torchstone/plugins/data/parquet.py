"""`parquet:PATH`: a table in columns: sentences or numbers, and a label, from the columns you name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard
from torchstone.plugins.data._table import ParquetTable, TableFile, TableSource, refuse_without_pyarrow
from torchstone.plugins.protocols import DataSource


class ParquetSource(TableSource):
    """Data source `parquet`."""

    scheme, endings = "parquet", (".parquet", ".pq")
    describes = "your own table: parquet:PATH, a file or a folder of them; text=COL or features=COL,…, and label=COL"

    def table(self, file: Path, options: Mapping[str, Scalar]) -> TableFile:
        return ParquetTable(file)

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_pyarrow(self.scheme)
        return super().card(path, options)


PLUGIN: DataSource = ParquetSource()
