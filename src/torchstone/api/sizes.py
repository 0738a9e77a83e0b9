"""The number of items in a batch of any type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def items_of(batch: Any) -> int | None:
    """Return the length along dimension 0 of the tensors in a batch (tensor, mapping, sequence, object of them).

    None where they do not agree: a batch of graphs has its nodes there, its edges and its graphs, and nobody but its
    user knows which of them are counted. A list of texts counts as its length; anything else without a tensor is None.
    """
    sizes = {int(tensor.shape[0]) for tensor in _tensors(batch) if len(tensor.shape)}
    if sizes:
        return sizes.pop() if len(sizes) == 1 else None
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        texts = all(isinstance(text, str | bytes) for text in batch)
        return len(batch) or None if texts else None
    return None


def _tensors(batch: Any, *, inside: bool = False) -> Iterator[Any]:
    """Yield the tensors; of the objects only the outermost is looked into: what it knows may be a whole data set."""
    if hasattr(batch, "shape"):
        yield batch
        return
    parts: Iterable[Any] = ()
    if isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        parts = batch
    elif not inside:
        parts = getattr(batch, "__dict__", {}).values()
    for part in parts:
        yield from _tensors(part, inside=True)
