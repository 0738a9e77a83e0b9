"""`digits`: 1,797 real handwritten digits that come with torchstone (_digits.md), resized as they are read."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from torchstone.errors import UsageError
from torchstone.extend import DataSource, Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import DataCard
from torchstone.terms.model import InputSpec

_ITEMS, _CLASSES, _SIDE, _WHITE = 1797, 10, 8, 16.0


class Digits:
    """Items of `pixel_values`, float32, channels × side × side from -1 to 1, and `labels`, the digit."""

    def __init__(self, lines: Sequence[str], channels: int, side: int) -> None:
        self._lines = lines
        self._channels = channels
        self._side = side

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        from torchstone.data._images import fitted

        numbers = [int(word) for word in self._lines[index].split(",")]
        pixels = torch.tensor(numbers[:-1], dtype=torch.float32).view(1, _SIDE, _SIDE) / _WHITE
        return {
            "pixel_values": fitted(pixels, self._channels, self._side).contiguous(),
            "labels": torch.tensor(numbers[-1]),
        }


class HandwrittenDigits:
    """Data source `digits`."""

    describes = "1,797 real handwritten digits in 10 classes, no download"

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if path:
            raise UsageError(f"data digits: comes with torchstone and takes no path; write digits, not digits:{path}")
        return DataCard("image", _ITEMS, _CLASSES)

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        data = gzip.decompress(files("torchstone.data").joinpath("_digits.csv.gz").read_bytes())
        return Digits(data.decode().splitlines(), spec.channels, int(configuration.get("image_size") or 224))


PLUGIN: DataSource = HandwrittenDigits()
