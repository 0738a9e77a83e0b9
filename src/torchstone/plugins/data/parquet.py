"""`parquet:PATH`: a table in columns: sentences or numbers, and a label, from the columns you name."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of, files_of
from torchstone.plugins.data._parquet_table import ParquetTable, refuse_without_pyarrow
from torchstone.plugins.data._sentences import refuse_without_tokenizers
from torchstone.plugins.data._table import OPTIONS, splits_of
from torchstone.plugins.data._table_items import Splits, card_of
from torchstone.plugins.data._table_rows import samples_of
from torchstone.plugins.protocols import DataSource, Samples

_ENDINGS = (".parquet", ".pq")


class Parquet:
    """Data source `parquet`."""

    describes = "your own table: parquet:PATH, a file or a folder of them; text=COL or features=COL,…, and label=COL"
    options: tuple[str, ...] = OPTIONS

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_pyarrow("parquet")
        kind, splits = _opened(path, options)
        if kind == "text":
            refuse_without_tokenizers("parquet")
        files = files_of("parquet", path, _ENDINGS).values()
        return card_of(kind, splits, digest_of([file for part in files for file in part]))

    def samples(self, path: str, view: View) -> Samples:
        return samples_of(*_opened(path, view.options), view, path)


def _opened(path: str, options: Mapping[str, Scalar]) -> tuple[str, Splits]:
    files = files_of("parquet", path, _ENDINGS)
    return splits_of({split: [ParquetTable(file) for file in part] for split, part in files.items()}, options)


PLUGIN: DataSource = Parquet()
