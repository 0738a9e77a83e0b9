"""What a data set is to the controller, how a trial looks at it, and what a step takes from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import InputSpec

SPLITS = ("train", "validation", "test")


class DataCard(msgspec.Struct, frozen=True):
    """What the controller may know of a data set without loading it.

    `splits`: items of each of SPLITS that the data comes in; empty where it is one piece. `labels`: names of the
    classes in the order of their numbers; empty where they have none. `unlabelled`: the splits without labels, where
    others have them.
    """

    kind: str  # a kind of InputSpec; "any" for what is made to measure
    items: int | None = None
    classes: int | None = None
    sha256: str | None = None
    splits: Mapping[str, int] = {}
    labels: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()


class View(msgspec.Struct, frozen=True):
    """How a trial looks at a data set: for a model with that input, one split of it, with the source's own options.

    `split` is None for data in one piece. `augment`: with random changes, as for training, each from the torch
    generator of the process that loads. `labels`: the names of the classes that the model knows, in its order, where
    they are given by a training before; data with any other is refused.
    """

    input: InputSpec
    configuration: Mapping[str, Scalar]
    tokenizer: Any = None
    seed: int = 0
    options: Mapping[str, Scalar] = {}
    split: str | None = None
    augment: bool = False
    labels: tuple[str, ...] = ()


class Unreadable(msgspec.Struct, frozen=True):
    """Stands for an item that could not be read, where the user asked to skip such: which, and why."""

    where: str
    why: str


class Batch(msgspec.Struct):
    """Tensors by name, with how many items and tokens (padding left out; None if it is not text) they hold."""

    tensors: Mapping[str, Any]
    items: int
    tokens: int | None = None
    unreadable: tuple[Unreadable, ...] = ()

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory; torch's DataLoader calls this by name."""
        pinned = {n: part.pin_memory() if hasattr(part, "pin_memory") else part for n, part in self.tensors.items()}
        return Batch(pinned, self.items, self.tokens, self.unreadable)
