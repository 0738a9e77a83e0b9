"""Optimizers by name, with the fused kernels where the device has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.machine_protocols import Device

_CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
# How often an update passes over as many numbers as there are weights: weights, gradients and moments read, weights and
# moments written. One that is not known reads weights and gradients, and writes weights.
PASSES = {"sgd": 5, "adam": 7, "adamw": 7}
LEAST_PASSES = 3


def scaler(configuration: Mapping[str, Scalar], device: Device, *, fused: bool) -> Any:
    """Return the loss scaler of fp16; None for other formats. `fused`: the update undoes the scale itself.

    Raises Unsupported where torch would undo it in fp64 and the device has none, as Intel's Arc (unscale_ of
    torch/amp/grad_scaler.py makes an exception of MPS alone).
    """
    if configuration.get("precision") != "fp16":
        return None
    place = torch.device(device.torch_device)
    unscales = not fused or float(configuration.get("grad_clip") or 0.0) > 0.0
    if place.type == "xpu" and unscales and not getattr(torch.xpu.get_device_properties(place), "has_fp64", True):
        raise Unsupported(
            "precision=fp16: torch's loss scaler computes in fp64, which this device lacks; "
            "use precision=bf16, or a fused optimizer without grad_clip"
        )
    return torch.amp.GradScaler(device=place.type)


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
