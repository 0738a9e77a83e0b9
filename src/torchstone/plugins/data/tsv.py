"""`tsv:PATH`: sentences with labels, tokenized as they are read by the model's tokenizer, or one made for the text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of, files_of
from torchstone.plugins.data._table import (
    Sentences,
    Splits,
    card_of,
    numbered,
    refuse_without_tokenizers,
    rows,
    rows_of,
)
from torchstone.plugins.protocols import DataSource, Samples


class Tsv(DataSource):
    """Data source `tsv`."""

    describes = "your own sentences: tsv:PATH, a row is sentence<TAB>label; a file, or a folder with train.tsv, dev.tsv"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        refuse_without_tokenizers("tsv")
        files = files_of("tsv", path, (".tsv",))
        return card_of("text", _splits(path), digest_of([file for part in files.values() for file in part]))

    def samples(self, path: str, view: View) -> Samples:
        return Sentences(numbered(_splits(path), view), view)


def _splits(path: str) -> Splits:
    return {split: partial(rows_of, rows, files) for split, files in files_of("tsv", path, (".tsv",)).items()}


PLUGIN: DataSource = Tsv()
