"""Rows of numbers as a data set: each is a sequence of as many frames as the model's width goes into its columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.batch import View
from torchstone.plugins.data._sentences import Sentences
from torchstone.plugins.data._table_items import Splits, numbered
from torchstone.plugins.protocols import Samples


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


def samples_of(kind: str, splits: Splits, view: View, where: str) -> Samples:
    """Open the view's split of a table: its text or its features."""
    found = numbered(splits, view)
    return Sentences(found, view) if kind == "text" else Rows(found, view, where)
