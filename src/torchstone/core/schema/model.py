"""A model, its inputs and its data: what the controller may know of them, and what a trial holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from torchstone.core.messages import why_fixed
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import LOADER_AXES, Scalar
from torchstone.core.schema.case import Case, Task
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


class OwnData(msgspec.Struct, frozen=True):
    """Data that a user's code returned. The default: it returned none, but a tokenizer.

    `settings`: what its own loader has, or how many items its example batch has. `fixed`: axes whose value cannot be
    another, for the reason `why`.
    """

    is_data: bool = False
    settings: Mapping[str, Scalar] = {}
    fixed: Mapping[str, Scalar] = {}
    why: Statement | None = None

    @property
    def why_text(self) -> str:
        """Return `why` in English."""
        return "" if self.why is None else why_fixed(self.why.id, self.why.values)

    def fill(self, task: Task, configuration: Mapping[str, Scalar], left_open: tuple[str, ...]) -> dict[str, Scalar]:
        """Return a Configuration with what follows from the data for the axes that were left open.

        Real data come through the loader, with the settings that it has. Resident batches need no workers.
        An example batch is measured as it is.
        """
        filled = dict(configuration)
        if self.is_data and "feed" in left_open:
            filled["feed"] = "loader"
        feeds = task == Task.LOAD or filled.get("feed") == "loader"
        for axis in left_open:
            if axis in self.settings and axis in filled and (feeds or axis not in LOADER_AXES):
                filled[axis] = self.settings[axis]
        return filled

    def filled(self, case: Case, left_open: tuple[str, ...]) -> Case:
        """Return a Case with what follows from the data for the axes that were left open."""
        configuration = self.fill(case.workload.task, case.configuration, left_open)
        return msgspec.structs.replace(case, configuration=configuration)

    def refuses(self, configuration: Mapping[str, Scalar]) -> str | None:
        """Return the first axis whose value a Configuration has otherwise than it is fixed; None: there is none."""
        resident = configuration.get("feed") == "resident"
        return next(
            (
                axis
                for axis, value in self.fixed.items()
                if axis in configuration and configuration[axis] != value and not (resident and axis in LOADER_AXES)
            ),
            None,
        )
