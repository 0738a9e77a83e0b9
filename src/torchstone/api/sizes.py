"""The number of items in a batch of any type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def items_of(batch: Any) -> int:
    """Return the length along dimension 0 of the first tensor in a batch (tensor, mapping, sequence, object of them).

    A batch without a tensor counts as its length, and what has no length as one item.
    """
    for tensor in _tensors(batch):
        return int(tensor.shape[0]) if len(tensor.shape) else 1
    return len(batch) if hasattr(batch, "__len__") else 1


def _tensors(batch: Any) -> list[Any]:
    if hasattr(batch, "shape"):
        return [batch]
    if isinstance(batch, Mapping):
        parts: Sequence[Any] = list(batch.values())
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        parts = batch
    else:
        parts = list(vars(batch).values()) if hasattr(batch, "__dict__") else []
    return [tensor for part in parts for tensor in _tensors(part)][:1] if parts else []
