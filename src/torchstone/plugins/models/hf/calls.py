"""How a transformers model is called: `forward` gives the logits, `loss` the scalar of its head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.nn.functional import cross_entropy

from torchstone.core.errors import UsageError

_INPUTS = ("input_ids", "attention_mask", "pixel_values")
_IGNORED = -100  # the label that torch's cross-entropy leaves out


class Classifying:
    """Encoders and vision models with a classification head. Tensors: input_ids (+ attention_mask) or pixel_values."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × classes."""
        return module(**_inputs(tensors)).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the items. Raises UsageError if the data has no labels."""
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return module(**_inputs(tensors), labels=tensors["labels"]).loss


class Matching:
    """Models of images and texts. Tensors: pixel_values, input_ids, attention_mask."""

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return how well they match, images × texts."""
        return module(**_inputs(tensors)).logits_per_image

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the contrastive loss: each image belongs to the text of its own pair, and to no other of the batch."""
        return module(**_inputs(tensors), return_loss=True).loss


class Continuing:
    """Language models. Tensors: input_ids, attention_mask."""

    def __init__(self, model_type: str) -> None:
        self._counts_positions_by_mask = model_type == "opt"

    def forward(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return logits, items × tokens × vocabulary; no cache is kept."""
        return module(**_inputs(tensors, square=not self._counts_positions_by_mask), use_cache=False).logits

    def loss(self, module: Any, tensors: Mapping[str, Any]) -> Any:
        """Return the mean cross-entropy over the next tokens, padding left out."""
        labels = tensors["input_ids"]
        if "attention_mask" in tensors:
            labels = labels.masked_fill(tensors["attention_mask"] == 0, _IGNORED)
        logits = self.forward(module, tensors)
        return cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=_IGNORED)


def _inputs(tensors: Mapping[str, Any], *, square: bool = False) -> dict[str, Any]:
    inputs = {name: tensors[name] for name in _INPUTS if name in tensors}
    if "input_ids" in inputs and inputs["input_ids"].is_meta:
        # Operations are counted on meta tensors. transformers looks into the mask (is it all ones?), and into the
        # positions where there is none (are sequences packed?); neither can answer. A square mask is not looked into.
        items, length = inputs["input_ids"].shape
        inputs.pop("attention_mask", None)
        if square:
            inputs["attention_mask"] = inputs["input_ids"].new_ones((items, 1, length, length)).bool()
    return inputs
