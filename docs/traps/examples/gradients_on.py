"""Inference in training mode keeps activations for a backward pass that never comes, and computes something else."""

from __future__ import annotations

import torch
from torch import nn


def wrong(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Return the output of the model as it was built: in training mode, with gradients on."""
    output: torch.Tensor = model(batch)
    return output


def right(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Return the output of the model as it is served."""
    model.eval()  # dropout off, batch norm by its running statistics
    with torch.inference_mode():  # nothing is kept for a backward pass
        output: torch.Tensor = model(batch)
    return output
