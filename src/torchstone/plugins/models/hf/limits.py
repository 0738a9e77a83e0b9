"""The inputs of a transformers model and its limits. Imported inside `load` only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import InputSpec
from torchstone.plugins.models.hf import audio
from torchstone.plugins.models.hf.families import Architecture


def input_of(config: Any, shape: Architecture) -> InputSpec:
    """Return the inputs of a model of that config."""
    words, eyes = getattr(config, "text_config", config), getattr(config, "vision_config", config)
    rows = getattr(words, "max_position_embeddings", None)
    reads = shape.kind in ("text", "image_text")
    return InputSpec(
        shape.kind,
        None if shape.causal or shape.kind == "image_text" else int(config.num_labels),
        getattr(words, "vocab_size", None) if reads else None,
        rows - shape.reserved if isinstance(rows, int) and reads else None,
        getattr(eyes, "num_channels", 3),
        causal=shape.causal,
    )


def objection_of(module: Any, config: Any, spec: InputSpec, *, fixed_size: bool) -> Callable[[str, Scalar], str | None]:
    """Return what says, for a value of an axis, why this model cannot do it. `fixed_size`: the weights are there."""
    kind, eyes = config.model_type, getattr(config, "vision_config", config)
    patch, side = getattr(eyes, "patch_size", None), getattr(eyes, "image_size", None)

    def objection(axis: str, value: Scalar) -> str | None:
        if axis == "sequence_length" and spec.longest is not None and int(value or 0) > spec.longest:
            return f"{kind}: at most {spec.longest} positions"
        if axis == "image_size" and patch and (int(value or 0) < patch or int(value or 0) % patch):
            return f"{kind}: a multiple of its patch size, {patch}"
        if axis == "image_size" and fixed_size and side and value != side:
            return f"{kind}: these weights are for image_size={side}"
        if axis == "audio_s" and spec.kind == "audio":
            return audio.objection(config, float(value or 0.0))
        if axis == "channels_last" and value and spec.kind not in ("image", "image_text"):
            return f"{kind}: {spec.kind} has no channels"
        if axis == "gradient_checkpointing" and value and not module.supports_gradient_checkpointing:
            return f"{kind}: transformers has no gradient checkpointing for it"
        return None

    return objection
