"""Builds the networks of `builtin:`, each with what calls it and what it learns from. Imported inside `load` only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from torch import randn_like
from torch.nn.functional import cross_entropy, mse_loss

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models.builtin import nets
from torchstone.plugins.models.builtin.names import DENOISER_SIZES, GESTURE_SIZES, LONGEST, POSITIONS, TEXT_SIZES

Work = Callable[[Any, Mapping[str, Any]], Any]
_NOISE = 0.1  # standard deviation of what is added to a sequence in training, and to be taken off again


class Built(msgspec.Struct):
    """A network, what calls it, and its loss."""

    module: Any
    forward: Work
    loss: Work


def build(name: str, classes: int, configuration: Mapping[str, Scalar]) -> Built:
    """Build the network of that name; `classes` is of no matter to a denoiser."""
    if name in GESTURE_SIZES:
        hidden, layers, _ = GESTURE_SIZES[name]
        return _classifier(nets.GestureNet(hidden, layers, classes), "features")
    if name in DENOISER_SIZES:
        depth, hidden, _ = DENOISER_SIZES[name]
        length = int(configuration.get("sequence_length") or POSITIONS)
        return Built(nets.Denoiser(depth, hidden, length), lambda net, t: net(t["features"]), _denoising)
    if name in TEXT_SIZES:
        depth, hidden, vocabulary, dropout = TEXT_SIZES[name]
        module = nets.TextNet(vocabulary, hidden, depth, LONGEST, classes, dropout)
        return _classifier(module, "input_ids", "attention_mask")
    side = int(configuration.get("image_size") or 32)
    convolves = name == "cnn"
    return _classifier(
        nets.SmallConvNet(classes) if convolves else nets.Perceptron(side, classes), "pixel_values"
    )


def _classifier(module: Any, *takes: str) -> Built:
    def forward(network: Any, tensors: Mapping[str, Any]) -> Any:
        return network(*[tensors[name] for name in takes])

    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return cross_entropy(forward(network, tensors), tensors["labels"])

    return Built(module, forward, loss)


def _denoising(network: Any, tensors: Mapping[str, Any]) -> Any:
    """Mean squared error against the targets; without them, noise is added to the sequence, which is the target."""
    features = tensors["features"]
    if "targets" in tensors:
        return mse_loss(network(features), tensors["targets"])
    return mse_loss(network(features + _NOISE * randn_like(features)), features)
