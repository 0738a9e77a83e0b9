"""Tables of files as a data source: text, or rows of numbers, each a sequence of as many frames as fit into it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._named_files import digest_of, files_of
from torchstone.plugins.data._sentences import Sentences, refuse_without_tokenizers
from torchstone.plugins.data._table import OPTIONS, TableFile, splits_of
from torchstone.plugins.data._table_items import Splits, card_of, numbered
from torchstone.plugins.protocols import DataSource, Samples


class TableSource(DataSource):
    """A data source of files that are tables of one format. What a format has of its own is in its plug-in."""

    scheme: str
    endings: tuple[str, ...]
    options: tuple[str, ...] = OPTIONS

    def table(self, file: Path, options: Mapping[str, Scalar]) -> TableFile:
        """Open one file. Raises UsageError naming it where it is no such table."""
        raise NotImplementedError

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        """Read everything and return its card: a DataSource's (extend.py)."""
        files = files_of(self.scheme, path, self.endings)
        kind, splits = self._opened(files, options)
        if kind == "text":
            refuse_without_tokenizers(self.scheme)
        return card_of(kind, splits, digest_of([file for part in files.values() for file in part]))

    def samples(self, path: str, view: View) -> Samples:
        """Open the view's split, its text or its features: a DataSource's (extend.py)."""
        kind, splits = self._opened(files_of(self.scheme, path, self.endings), view.options)
        found = numbered(splits, view)
        return Sentences(found, view) if kind == "text" else Rows(found, view, path)

    def _opened(self, files: Mapping[str | None, Sequence[Path]], options: Mapping[str, Scalar]) -> tuple[str, Splits]:
        tables = {split: [self.table(file, options) for file in part] for split, part in files.items()}
        return splits_of(tables, options)


class Rows:
    """Items of `features`, float32, frames × width, and `labels` if the rows have them.

    A row of as many columns as the model is wide is one frame; of several times as many, a sequence, frame after
    frame, cut to `sequence_length`. None is padded: the rows of a table are all of one length.
    """

    def __init__(self, labelled: Iterable[tuple[Sequence[float], int | None]], view: View, where: str) -> None:
        import torch

        numbers, self._labels = array("f"), list[int | None]()
        for row, label in labelled:
            numbers.extend(row)
            self._labels.append(label)
        columns = len(numbers) // len(self._labels)
        width = view.input.width or columns
        if columns % width:
            raise UsageError(f"{where}: {columns} columns of features, but the model takes {width} values a frame")
        length = int(view.configuration.get("sequence_length") or columns // width)
        values = torch.frombuffer(numbers, dtype=torch.float32).view(len(self._labels), columns // width, width)
        self._values = values[:, :length].contiguous()

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        item = {"features": self._values[index]}
        label = self._labels[index]
        if label is not None:
            item["labels"] = torch.tensor(label)
        return item
