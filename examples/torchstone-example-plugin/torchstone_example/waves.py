"""`waves:N`: N noisy sine waves; the class of one is its loudness."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torchstone.extend import DataCard, DataSource, Samples, Scalar, UsageError, View

_USUAL, _CLASSES, _NOISE = 256, 3, 0.1


class Waves:
    """Items of `features`, float32, length × 1, and `labels`. An item depends on the seed and its number alone."""

    def __init__(self, items: int, length: int, seed: int) -> None:
        self._items, self._length, self._seed = items, length, seed

    def __len__(self) -> int:
        return self._items

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return one wave."""
        import torch

        generator = torch.Generator().manual_seed(self._seed * self._items + index)
        label = index % _CLASSES
        angles = torch.linspace(0.0, 4.0 * math.pi, self._length)
        wave = (1.0 + label) * torch.sin(angles) + _NOISE * torch.randn(self._length, generator=generator)
        return {"features": wave.unsqueeze(1), "labels": torch.tensor(label)}


class WaveSource(DataSource):
    """Data source `waves`."""

    describes = "example: noisy sine waves in 3 classes, waves:N"
    options: tuple[str, ...] = ()

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        """Say how many there are, without torch."""
        return DataCard("features", _number(path), _CLASSES)

    def samples(self, path: str, view: View) -> Samples:
        """Make the waves."""
        return Waves(_number(path), int(view.configuration.get("sequence_length") or 128), view.seed)


def _number(path: str) -> int:
    if path and not (path.isascii() and path.isdigit() and int(path)):
        raise UsageError(f"data waves:{path}: write how many, for example waves:{_USUAL}")
    return int(path or _USUAL)


PLUGIN: DataSource = WaveSource()
