"""Which model is meant: the source of a name, its card, and whether an axis goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import ModelCard
from torchstone.plugins import registry
from torchstone.plugins.protocols import Engine

# Axes that shape the input; a model that brings its own example batch, or takes another kind, does not have them.
SHAPES = {
    "sequence_length": ("text", "features", "image_text"),
    "image_size": ("image", "image_text"),
    "audio_s": ("audio",),
}
_WEIGHTS = (".pth", ".pt", ".safetensors", ".ckpt", ".bin")  # what a file of weights ends in, wherever it is from


def source_of(model: str) -> tuple[str, str]:
    """Return (source, name) of a model in the user's words. Raises UsageError naming what there is."""
    scheme, colon, rest = model.partition(":")
    if not colon:
        listed = {scheme: dict(source.names()) for scheme, source in registry.usable("models")}
        schemes = [scheme for scheme, found in listed.items() if model in found]
        if schemes:
            return schemes[0], model
        if PurePath(model).suffix in _WEIGHTS:
            told = f"builtin:NAME@{model} (torchstone list models), or py:FILE.py:FUNCTION that loads it"
            raise UsageError(f"model {model}: weights do not name their network; write {told}")
        every = [name for found in listed.values() for name in found]
        raise unknown("model", model, every)
    if scheme not in registry.names("models"):
        raise unknown("model source", scheme, registry.names("models"))
    return scheme, rest


def card_of(model: str, options: Mapping[str, Scalar]) -> ModelCard:
    """Return the card of a model in the user's words. Raises UsageError if there is none of that name."""
    scheme, name = source_of(model)
    card: ModelCard = registry.load("models", scheme).card(name, options)
    return card


def takes(task: str, model: str, options: Mapping[str, Scalar], axis: str) -> bool:
    """Say whether an axis goes with a task and a model; the model is looked at only if the axis shapes its input."""
    engine: Engine = registry.load("engines", task)
    return axis in engine.axes and (axis not in SHAPES or card_of(model, options).input.kind in SHAPES[axis])
