"""`sst2:PATH`: the Stanford Sentiment Treebank in two classes, as GLUE, the hub or others hand it out.

Socher et al., EMNLP 2013; as a task of GLUE: Wang et al., ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of, files_of, is_folder
from torchstone.plugins.data._table import (
    Item,
    ParquetTable,
    Sentences,
    Splits,
    card_of,
    numbered,
    refuse_without_pyarrow,
    refuse_without_tokenizers,
    rows,
    rows_of,
)
from torchstone.plugins.protocols import DataSource, Samples

NAMES = ("negative", "positive")
_HIDDEN = -1  # the label of every row of the hub's test set
_ENDINGS = (".tsv", ".parquet")


class Sst2(DataSource):
    """Data source `sst2`. Splits train, validation (dev.tsv) and test; GLUE's test set has no labels."""

    describes = "SST-2: sst2:PATH, a folder of GLUE's .tsv files, of sentence<TAB>label files, or of the hub's parquet"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_tokenizers("sst2")
        files = _files(path)
        every = [file for part in files.values() for file in part]
        if any(file.suffix.lower() == ".parquet" for file in every):
            refuse_without_pyarrow("sst2")
        return card_of("text", _splits(files), digest_of(every), NAMES)

    def samples(self, path: str, view: View) -> Samples:
        return Sentences(numbered(_splits(_files(path)), view, NAMES), view)


def _files(path: str) -> Mapping[str | None, Sequence[Path]]:
    """Return the files of each split. Raises UsageError where a folder holds the set twice, as text and as parquet."""
    place = Path(path).expanduser()
    if path and is_folder(place):
        endings = {e.suffix.lower() for e in place.iterdir()} & set(_ENDINGS)
        if len(endings) > 1:
            raise UsageError(f"{place}: has .tsv and .parquet files; move those of one kind to another folder")
    return files_of("sst2", path, _ENDINGS)


def _splits(files: Mapping[str | None, Sequence[Path]]) -> Splits:
    return {split: partial(rows_of, _read, part) for split, part in files.items()}


def _read(file: Path) -> Iterator[Item]:
    return _parquet_rows(file) if file.suffix.lower() == ".parquet" else rows(file)


def _parquet_rows(file: Path) -> Iterator[Item]:
    """Yield the rows of a file with the columns sentence and label. Raises UsageError naming the first wrong row."""
    table = ParquetTable(file)
    for name in ("sentence", "label"):
        if name not in table.columns:
            raise UsageError(f"{file}: has no column {name}; it has: {', '.join(table.columns)[:200]}")
    for number, (sentence, label) in table.rows(("sentence", "label")):
        at = f"{file}: row {number}"
        if not isinstance(sentence, str) or not sentence.strip():
            raise UsageError(f"{at}: has no text in sentence")
        if not isinstance(label, int) or isinstance(label, bool) or label < _HIDDEN:
            raise UsageError(f"{at}: the label {str(label)[:40]!r} is neither a class nor -1, which stands for none")
        yield Item(at, sentence.strip(), None if label == _HIDDEN else label)


PLUGIN: DataSource = Sst2()
