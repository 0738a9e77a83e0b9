"""Optimizers by name, with the fused kernels where the device has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar

_CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
# How often an update passes over as many numbers as there are weights: weights, gradients and moments read, weights and
# moments written. One that is not known reads weights and gradients, and writes weights.
PASSES = {"sgd": 5, "adam": 7, "adamw": 7}
LEAST_PASSES = 3


def build(parameters: Iterable[Any], configuration: Mapping[str, Scalar]) -> tuple[torch.optim.Optimizer, bool]:
    """Return the optimizer and whether its kernels are fused. SGD goes with momentum 0.9, as it is used."""
    trainable = [p for p in parameters if p.requires_grad]
    if not trainable:
        raise Unsupported("the model has no trainable parameter")
    name = str(configuration["optimizer"])
    settings: dict[str, Any] = {"lr": float(configuration["learning_rate"] or 0.0)}
    if name == "sgd":
        settings["momentum"] = 0.9
    wish = configuration.get("fused", "auto")
    if wish != "off":
        try:
            return _CLASSES[name](trainable, fused=True, **settings), True
        except RuntimeError as error:  # torch raises it for devices without fused kernels
            if wish == "on":
                raise Unsupported(f"fused=on: {str(error).splitlines()[0]}") from error
    return _CLASSES[name](trainable, **settings), False
