"""What a data set is to the controller, and what a step takes from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class DataCard(msgspec.Struct, frozen=True):
    """What the controller may know of a data set without loading it."""

    kind: str  # "text", "image", "features"; "any" for what is made to measure
    items: int | None = None
    classes: int | None = None
    sha256: str | None = None


class Batch(msgspec.Struct):
    """Tensors by name, with how many items and tokens (padding left out; None if it is not text) they hold."""

    tensors: Mapping[str, Any]
    items: int
    tokens: int | None = None

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory; torch's DataLoader calls this by name."""
        return Batch({name: tensor.pin_memory() for name, tensor in self.tensors.items()}, self.items, self.tokens)
