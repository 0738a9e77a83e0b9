"""What a model is and eats: what the controller may know of it, and what a trial holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from torchstone.terms.axis import Scalar


class InputSpec(msgspec.Struct, frozen=True):
    """What a model eats: text (token ids), image (channels × side × side), or features (length × width)."""

    kind: str  # "text", "image", "features", "own" (the model brings its own example batch)
    classes: int | None = None
    vocabulary: int | None = None
    longest: int | None = None
    channels: int = 3
    width: int | None = None
    causal: bool = False  # labels are the tokens themselves


class ModelCard(msgspec.Struct, frozen=True):
    """What the controller may know of a model without torch: its item, its input, what must be recorded of it."""

    item: str
    input: InputSpec
    name: str | None = None  # the one name of a model that has several
    family: str | None = None
    fixed: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    tasks: tuple[str, ...] = ("infer", "train")
    defaults: Mapping[str, Scalar] = msgspec.field(default_factory=dict)  # of axes, where the model has its own
    own: bool = False  # the user's own code or files: rehearsed before anything is written
    code_sha256: str | None = None  # of the user's own code; a changed file is the same Case all the same


class LoadedModel(msgspec.Struct):
    """A model in the process of a trial. `loss(module, batch)` returns a scalar tensor, `forward` the output."""

    module: Any
    forward: Callable[[Any, Mapping[str, Any]], Any]
    loss: Callable[[Any, Mapping[str, Any]], Any] | None
    input: InputSpec
    example: Mapping[str, Any] | None = None  # the model's own example batch, tensors with items along dimension 0
    optimizer: Callable[[Any], Any] | None = None  # the user's own: parameters → optimizer
    tokenizer: Any = None
    objection: Callable[[str, Scalar], str | None] | None = None
    facts: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
