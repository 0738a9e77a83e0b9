"""A model and its inputs: what the controller may know of it, and what a trial holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts


class InputSpec(msgspec.Struct, frozen=True):
    """The inputs of a model, by `kind`.

    text: `input_ids` and `attention_mask`. image: `pixel_values`, channels × side × side. image_text: both. audio:
    `waveform`, samples at `rate_hz`. features: `features`, length × width. own: the model brings its example batch.
    """

    kind: str
    classes: int | None = None
    vocabulary: int | None = None
    longest: int | None = None
    channels: int = 3
    width: int | None = None
    causal: bool = False  # labels are the tokens themselves
    rate_hz: int = 16_000


class ModelCard(msgspec.Struct, frozen=True):
    """What the controller may know of a model without torch: its item, its input, what must be recorded of it."""

    item: str
    input: InputSpec
    name: str | None = None  # the one name of a model that has several
    family: str | None = None
    fixed: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    tasks: tuple[str, ...] = ("infer", "train")
    defaults: Mapping[str, Scalar] = msgspec.field(default_factory=dict)  # of axes, where the model has its own
    own: bool = False  # the user's own code or files, or weights to download: rehearsed before anything is written
    pretrained: bool = False  # whether there are weights to ask for by weights=pretrained
    code_sha256: str | None = None  # of the user's own code; a changed file is the same Case all the same


class Decoding(msgspec.Struct, frozen=True):
    """How a causal model generates: its prompts in one pass, then a pass a token, keys and values kept in a cache.

    start: module, tensors, how many tokens will be generated → logits after each prompt (items × vocabulary), and the
        state in which it goes on. A padded prompt has its padding before it, and an attention mask.
    go_on: module, the tokens chosen last (items), state → logits as before; the state is changed.
    cache_bytes: state → what its keys and values take.
    expected_bytes: items, tokens kept of each, bytes of one number → what the model's config says they take.
    """

    start: Callable[[Any, Mapping[str, Any], int], tuple[Any, Any]]
    go_on: Callable[[Any, Any, Any], Any]
    cache_bytes: Callable[[Any], int]
    expected_bytes: Callable[[int, int, int], int]


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
    facts: Facts = msgspec.field(default_factory=Facts)
    decoding: Decoding | None = None  # of models that can generate text
    samples: Any = None  # the model's own data: Samples or Streamable (extend.py)
