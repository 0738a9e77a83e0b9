"""`digits`: 1,797 real handwritten digits that come with torchstone (digits.md), resized as they are read."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import DataCard, View
from torchstone.plugins.protocols import DataSource, Samples

_ITEMS, _CLASSES, _SIDE, _WHITE = 1797, 10, 8, 16.0


class Digits:
    """Items of `pixel_values`, float32, channels × side × side from -1 to 1, and `labels`, the digit.

    Never augmented: a mirrored digit is none.
    """

    def __init__(self, lines: Sequence[str], channels: int, side: int) -> None:
        self._lines = lines
        self._channels = channels
        self._side = side

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        from torchstone.plugins.data._images import resized

        numbers = [int(word) for word in self._lines[index].split(",")]
        pixels = torch.tensor(numbers[:-1], dtype=torch.float32).view(1, _SIDE, _SIDE) / _WHITE
        values = resized(pixels, self._side).mul_(2.0).sub_(1.0)
        return {
            "pixel_values": values.expand(self._channels, -1, -1).contiguous(),
            "labels": torch.tensor(numbers[-1]),
        }

    def label(self, index: int) -> int:
        """Return the digit without its image."""
        return int(self._lines[index].rpartition(",")[2])


class HandwrittenDigits(DataSource):
    """Data source `digits`."""

    describes = "1,797 real handwritten digits in 10 classes, no download"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if path:
            raise UsageError(f"data digits: comes with torchstone and takes no path; write digits, not digits:{path}")
        return DataCard("image", _ITEMS, _CLASSES, labels=tuple(map(str, range(_CLASSES))))

    def samples(self, path: str, view: View) -> Samples:
        data = gzip.decompress(Path(__file__).with_name("digits.csv.gz").read_bytes())
        return Digits(data.decode().splitlines(), view.input.channels, int(view.configuration.get("image_size") or 224))


PLUGIN: DataSource = HandwrittenDigits()
